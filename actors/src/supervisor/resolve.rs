//! From names and patterns to pools (reference §2.2 "Wildcards", §2.3 "Pre-check").

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use orbweaver_api::address_set::Family;
use orbweaver_api::pattern::{self, Pattern};
use orbweaver_api::pool::SpiderIPPool;

use super::selection::Question;
use super::source::Source;
use crate::error::IpamError;

/// From so many names on an index of all pools is cheaper than a look through them for each.
const INDEX_FROM: usize = 8;

/// The pools that the names and patterns mean, in their order; those of one pattern by name. A pool that a
/// pattern finds again stays where it was; one that is written twice is refused.
pub(super) fn pools(
    question: &Question<'_>,
    source: Source,
    family: Family,
    names: &[String],
) -> Result<Vec<Arc<SpiderIPPool>>, IpamError> {
    let index = (names.len() >= INDEX_FROM).then(|| by_name(question.pools));
    let find = |name: &str| match &index {
        Some(index) => index.get(name).copied(),
        None => question.pools.iter().find(|pool| name_of(pool) == name),
    };
    let (mut written, mut taken) = (HashSet::new(), HashSet::new());
    let mut found: Vec<Arc<SpiderIPPool>> = Vec::with_capacity(names.len());
    for name in names {
        if !written.insert(name.as_str()) {
            return Err(IpamError::InvalidRequest(
                format!("IPPool {name:?} is named twice for {family} by {source}; name it once").into(),
            ));
        }
        if pattern::is_pattern(name) {
            let pattern = Pattern::parse(name).map_err(|error| {
                IpamError::InvalidRequest(format!("{source}: {error}; write {}", pattern::FORM).into())
            })?;
            let matches = matching(question.pools, family, &pattern);
            found.extend(matches.filter(|pool| taken.insert(name_of(pool))).cloned());
            continue;
        }
        let pool = find(name).ok_or_else(|| {
            IpamError::NoPool(format!("IPPool {name:?} does not exist; {source} names it").into())
        })?;
        if let Some(actual) = pool.family().filter(|actual| *actual != family) {
            return Err(IpamError::InvalidRequest(
                format!(
                    "IPPool {name:?} is {actual} but is named as {family} by {source}; move it to the other list"
                )
                .into(),
            ));
        }
        if taken.insert(name_of(pool)) {
            found.push(pool.clone());
        }
    }
    if found.is_empty() {
        let nic = question.nic;
        return Err(IpamError::NoPool(
            format!("the patterns {names:?} of {source} match no {family} IPPool for {nic}").into(),
        ));
    }
    Ok(found)
}

fn matching<'a>(
    pools: &'a [Arc<SpiderIPPool>],
    family: Family,
    pattern: &Pattern,
) -> impl Iterator<Item = &'a Arc<SpiderIPPool>> + use<'a> {
    let mut matches: Vec<_> = pools
        .iter()
        .filter(|pool| pool.family() == Some(family) && pattern.matches(name_of(pool)))
        .collect();
    matches.sort_by_key(|pool| name_of(pool));
    matches.into_iter()
}

fn by_name(pools: &[Arc<SpiderIPPool>]) -> HashMap<&str, &Arc<SpiderIPPool>> {
    pools.iter().map(|pool| (name_of(pool), pool)).collect()
}

/// A pool's name; an object of the API server has one.
pub(super) fn name_of(pool: &SpiderIPPool) -> &str {
    pool.metadata.name.as_deref().unwrap_or_default()
}
