//! The caller's budget, judged before anything is spent (seed, "Runtime behavior").

use std::time::Duration;

use crate::refusal::Refusal;

/// Reads `X-Request-Timeout-Ms`: a positive integer of milliseconds.
pub fn read(header: Option<&str>) -> Result<Duration, Refusal> {
    let field = "X-Request-Timeout-Ms";
    let Some(text) = header else {
        return Err(Refusal::invalid(
            field,
            "",
            "the header is missing; send the remaining budget in milliseconds",
        ));
    };
    match text.trim().parse::<u64>() {
        Ok(milliseconds) if milliseconds > 0 => Ok(Duration::from_millis(milliseconds)),
        _ => Err(Refusal::invalid(
            field,
            text,
            "send a positive whole number of milliseconds",
        )),
    }
}

/// Refuses a budget that may end while the cloud is at work. `spent` is what waiting has already used of it.
pub fn check(budget: Duration, spent: Duration, least: Duration) -> Result<(), Refusal> {
    if budget.saturating_sub(spent) >= least {
        return Ok(());
    }
    Err(Refusal::Budget { budget, spent, least })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_positive_integer_is_a_budget() {
        assert_eq!(read(Some("50000")), Ok(Duration::from_secs(50)));
        for bad in [
            None,
            Some(""),
            Some("0"),
            Some("-1"),
            Some("1.5"),
            Some("50s"),
            Some("99999999999999999999"),
        ] {
            let refusal = read(bad).unwrap_err();
            assert_eq!(refusal.status(), 400, "{bad:?}");
            assert!(refusal.to_string().contains("X-Request-Timeout-Ms"), "{bad:?}");
        }
    }

    #[test]
    fn a_budget_is_enough_from_the_least_on() {
        let least = Duration::from_secs(46);
        let cases = [
            (46_000, 0, true),
            (45_999, 0, false),
            (50_000, 4_000, true),
            (50_000, 4_001, false),
        ];
        for (budget, spent, enough) in cases {
            let result = check(Duration::from_millis(budget), Duration::from_millis(spent), least);
            assert_eq!(result.is_ok(), enough, "{budget} - {spent}");
        }
    }
}
