//! A second implementation of the selection, slow and obvious, written from the seed and the reference and for
//! tests only. It works on JSON and on strings, and shares nothing with the product.

use serde_json::Value;

/// What the pod's world looks like.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) pools: Vec<Value>,
    pub(crate) pod_annotations: Value,
    pub(crate) pod_labels: Value,
    pub(crate) namespace_annotations: Value,
    pub(crate) namespace_labels: Value,
    pub(crate) node_labels: Value,
    pub(crate) configured: [Vec<String>; 2],
    pub(crate) enabled: [bool; 2],
    pub(crate) nic: &'static str,
    pub(crate) networks: Vec<Option<&'static str>>,
}

/// Of one NIC: the kept class, the ignored pools, and for each family its candidates in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) class: u8,
    pub(crate) ignored: Vec<String>,
    pub(crate) families: Vec<(u8, Vec<String>)>,
}

/// `None`: refused.
pub(crate) fn decide(facts: &Facts) -> Option<Vec<Decision>> {
    let lists = lists(facts)?;
    let mut decisions = Vec::new();
    for (place, list) in lists.iter().enumerate() {
        decisions.push(decide_one(facts, place, list)?);
    }
    Some(decisions)
}

fn text<'a>(of: &'a Value, key: &str) -> Option<&'a str> {
    of.get(key)?.as_str()
}

fn strings(of: Option<&Value>) -> Option<Vec<String>> {
    match of {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(list) => list
            .as_array()?
            .iter()
            .map(|one| one.as_str().map(str::to_owned))
            .collect(),
    }
}

fn both(of: &Value) -> Option<[Vec<String>; 2]> {
    let lists = [strings(of.get("ipv4"))?, strings(of.get("ipv6"))?];
    let empty = lists.iter().all(Vec::is_empty);
    let blank = lists.iter().flatten().any(|name| name.trim().is_empty());
    (!empty && !blank).then_some(lists)
}

/// The names and patterns for every NIC that is decided about.
fn lists(facts: &Facts) -> Option<Vec<[Vec<String>; 2]>> {
    let pod = &facts.pod_annotations;
    if pod.get("ipam.spidernet.io/subnet").is_some() || pod.get("ipam.spidernet.io/subnets").is_some() {
        return None;
    }
    if let Some(written) = text(pod, "ipam.spidernet.io/ippools") {
        let items: Vec<Value> = serde_json::from_str(written).ok()?;
        let mut parsed = Vec::new();
        for item in &items {
            parsed.push((text(item, "interface").unwrap_or("").to_owned(), both(item)?));
        }
        let named = parsed.iter().filter(|(nic, _)| !nic.is_empty()).count();
        if parsed.is_empty() || (named != 0 && named != parsed.len()) {
            return None;
        }
        if named == 0 {
            return Some(parsed.into_iter().map(|(_, lists)| lists).collect());
        }
        for (place, (nic, _)) in parsed.iter().enumerate() {
            if parsed.iter().skip(place + 1).any(|(other, _)| other == nic) {
                return None;
            }
        }
        let own = parsed.into_iter().find(|(nic, _)| nic == facts.nic)?;
        return Some(vec![own.1]);
    }
    if let Some(written) = text(pod, "ipam.spidernet.io/ippool") {
        return Some(vec![both(&serde_json::from_str(written).ok()?)?]);
    }
    let mut namespace: [Vec<String>; 2] = [Vec::new(), Vec::new()];
    for (place, keys) in [
        ["default-ipv4-ippool", "defaultv4ippool"],
        ["default-ipv6-ippool", "defaultv6ippool"],
    ]
    .into_iter()
    .enumerate()
    {
        for key in keys {
            let key = format!("ipam.spidernet.io/{key}");
            if let Some(written) = text(&facts.namespace_annotations, &key) {
                namespace[place] = serde_json::from_str::<Vec<String>>(written).ok()?;
                if namespace[place].is_empty() || namespace[place].iter().any(|name| name.trim().is_empty()) {
                    return None;
                }
                break;
            }
        }
    }
    if namespace.iter().any(|list| !list.is_empty()) {
        return Some(vec![namespace]);
    }
    if facts.configured.iter().any(|list| !list.is_empty()) {
        return Some(vec![facts.configured.clone()]);
    }
    let mut names: Vec<(u8, String)> = facts
        .pools
        .iter()
        .filter(|pool| pool["spec"]["default"] == true)
        .map(|pool| (family(pool), name(pool)))
        .collect();
    names.sort();
    let of = |wanted: u8| {
        let own = names.iter().filter(|(family, _)| *family == wanted);
        own.map(|(_, name)| name.clone()).collect::<Vec<_>>()
    };
    let lists = [of(4), of(6)];
    lists.iter().any(|list| !list.is_empty()).then(|| vec![lists])
}

fn name(pool: &Value) -> String {
    pool["metadata"]["name"].as_str().unwrap().to_owned()
}

fn family(pool: &Value) -> u8 {
    if pool["spec"]["subnet"].as_str().unwrap().contains(':') {
        6
    } else {
        4
    }
}

fn marked(pool: &Value) -> bool {
    let value = &pool["metadata"]["annotations"]["ipam.spidernet.io/iaas-provider"];
    value.as_str().is_some_and(|value| !value.is_empty())
}

fn paired(pool: &Value) -> bool {
    pool["metadata"]["annotations"]["ipam.spidernet.io/pair-pool"].is_string()
}

/// 1 paired primary, 2 marked, 3 plain.
fn class(facts: &Facts, pool: &Value) -> u8 {
    match marked(pool) {
        true if facts.enabled == [true, true] && family(pool) == 4 && paired(pool) => 1,
        true => 2,
        false => 3,
    }
}

fn decide_one(facts: &Facts, place: usize, lists: &[Vec<String>; 2]) -> Option<Decision> {
    let mut configured: Vec<(u8, Vec<&Value>)> = Vec::new();
    for (index, wanted) in [4, 6].into_iter().enumerate() {
        if facts.enabled[index] && !lists[index].is_empty() {
            configured.push((wanted, resolve(facts, wanted, &lists[index])?));
        }
    }
    let mut best = 9;
    for (_, pools) in &configured {
        for pool in pools {
            best = best.min(class(facts, pool));
        }
    }
    if best == 9 {
        return None;
    }
    let mut decision = Decision {
        class: best,
        ignored: Vec::new(),
        families: Vec::new(),
    };
    for (wanted, pools) in configured {
        let mut kept = Vec::new();
        for pool in pools {
            if class(facts, pool) == best {
                kept.push(pool);
            } else {
                decision.ignored.push(name(pool));
            }
        }
        if kept.is_empty() {
            continue;
        }
        kept.retain(|pool| passes(facts, place, wanted, pool));
        if kept.is_empty() {
            return None;
        }
        decision.families.push((wanted, ordered(kept)));
    }
    Some(decision)
}

fn resolve<'a>(facts: &'a Facts, wanted: u8, names: &[String]) -> Option<Vec<&'a Value>> {
    let mut found: Vec<&Value> = Vec::new();
    for (place, written) in names.iter().enumerate() {
        if names[..place].contains(written) {
            return None;
        }
        let pattern = written.contains('*') || written.contains('?') || written.contains('[');
        let mut matches: Vec<&Value> = facts
            .pools
            .iter()
            .filter(|pool| {
                if pattern {
                    family(pool) == wanted && glob(written.as_bytes(), name(pool).as_bytes())
                } else {
                    name(pool) == *written
                }
            })
            .collect();
        if !pattern && (matches.is_empty() || family(matches[0]) != wanted) {
            return None;
        }
        matches.sort_by_key(|pool| name(pool));
        for pool in matches {
            if !found.iter().any(|other| name(other) == name(pool)) {
                found.push(pool);
            }
        }
    }
    (!found.is_empty()).then_some(found)
}

/// `*`, `?` and `[ab]` only.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    match pattern {
        [] => name.is_empty(),
        [b'*', rest @ ..] => (0..=name.len()).any(|taken| glob(rest, &name[taken..])),
        [b'?', rest @ ..] => !name.is_empty() && glob(rest, &name[1..]),
        [b'[', a, b, b']', rest @ ..] => {
            !name.is_empty() && (name[0] == *a || name[0] == *b) && glob(rest, &name[1..])
        }
        [one, rest @ ..] => name.first() == Some(one) && glob(rest, &name[1..]),
    }
}

fn passes(facts: &Facts, place: usize, wanted: u8, pool: &Value) -> bool {
    let spec = &pool["spec"];
    let listed = |field: &str, value: &str| {
        let list = strings(spec.get(field)).unwrap();
        (list.is_empty(), list.iter().any(|one| one == value))
    };
    let sibling = marked(pool) && paired(pool) && family(pool) == 6;
    if sibling
        || pool["metadata"]["deletionTimestamp"].is_string()
        || spec["disable"] == true
        || family(pool) != wanted
    {
        return false;
    }
    let node = match listed("nodeName", "n1") {
        (true, _) => selected(&spec["nodeAffinity"], &facts.node_labels),
        (false, named) => named,
    };
    let namespace = match listed("namespaceName", "shop") {
        (true, _) => selected(&spec["namespaceAffinity"], &facts.namespace_labels),
        (false, named) => named,
    };
    let networks = strings(spec.get("multusName")).unwrap();
    let network = facts.networks.get(place).copied().flatten();
    let multus = networks.is_empty()
        || network.is_some_and(|network| {
            let full = |one: &String| {
                if one.contains('/') {
                    one.clone()
                } else {
                    format!("kube-system/{one}")
                }
            };
            networks.iter().any(|one| full(one) == network)
        });
    node && namespace && selected(&spec["podAffinity"], &facts.pod_labels) && multus
}

/// No selector selects everything; a broken one nothing.
fn selected(selector: &Value, labels: &Value) -> bool {
    if selector.is_null() {
        return true;
    }
    let mut all = true;
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        all &= labels.get(key) == Some(value);
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let value = labels.get(expression["key"].as_str().unwrap());
        let values = expression["values"].as_array().cloned().unwrap_or_default();
        let within = value.is_some_and(|value| values.contains(value));
        all &= match (expression["operator"].as_str().unwrap(), values.is_empty()) {
            ("In", false) => within,
            ("NotIn", false) => !within,
            ("Exists", true) => value.is_some(),
            ("DoesNotExist", true) => value.is_none(),
            _ => return false,
        };
    }
    all
}

/// The best first, again and again: node-level before global, then who says more, then the user's order.
fn ordered(mut pools: Vec<&Value>) -> Vec<String> {
    let says = |pool: &Value, field: &str| {
        let value = &pool["spec"][field];
        !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty())
    };
    let better = |a: &Value, b: &Value| {
        let global = |pool: &Value| marked(pool) && !says(pool, "nodeName");
        if global(a) != global(b) {
            return global(b);
        }
        for field in [
            "podAffinity",
            "nodeName",
            "nodeAffinity",
            "namespaceName",
            "namespaceAffinity",
            "multusName",
        ] {
            if says(a, field) != says(b, field) {
                return says(a, field);
            }
        }
        false
    };
    let mut order = Vec::new();
    while !pools.is_empty() {
        let mut best = 0;
        for place in 1..pools.len() {
            if better(pools[place], pools[best]) {
                best = place;
            }
        }
        order.push(name(pools.remove(best)));
    }
    order
}
