use proptest::prelude::*;

use super::*;

const WRITTEN: Progress = Progress::Written {
    budget: Duration::from_secs(50),
    elapsed: Duration::from_secs(20),
};

#[test]
fn each_end_has_the_text_of_the_reference() {
    let fifty = Duration::from_secs(50);
    let table: &[(ProviderError, &str)] = &[
        (
            refused(Call::Allocate, 503, b"queue full\n"),
            "iaas allocate API returned status 503: queue full",
        ),
        (
            refused(Call::Release, 307, b""),
            "iaas release API returned status 307: ",
        ),
        (
            unreadable("EOF while parsing"),
            "failed to unmarshal allocate response: EOF while parsing",
        ),
        (contradicted("x"), "iaas allocate API answered wrongly: x"),
        (
            broken(Call::Allocate, Progress::Unwritten, "connection refused"),
            "iaas allocate API call failed: connection refused",
        ),
        (
            broken(Call::Release, WRITTEN, "reset"),
            "iaas release API call failed: reset",
        ),
        (
            timed_out(Call::Allocate, Limit::Configured(fifty), WRITTEN),
            "provider-interaction timeout: IaaS allocate API call exceeded configured timeout 50s: no complete answer",
        ),
        (
            timed_out(Call::Release, Limit::Parent(Duration::from_millis(1500)), WRITTEN),
            "parent budget exhausted: IaaS release API call cancelled by parent context deadline: no complete answer \
             in the 1.5s that were left",
        ),
        (
            nothing_left(Call::Allocate, Duration::from_secs(90)),
            "parent budget exhausted: IaaS allocate API call was not sent: the deadline passed after 1m30s of waiting",
        ),
    ];
    for (error, expected) in table {
        assert_eq!(error.to_string(), *expected);
    }
}

#[test]
fn only_a_call_that_may_have_arrived_is_unknown() {
    let limit = Limit::Configured(Duration::from_secs(50));
    let call = Call::Allocate;
    for certain in [
        refused(call, 500, b""),
        unreadable("x"),
        contradicted("x"),
        broken(call, Progress::Unwritten, "x"),
        timed_out(call, limit, Progress::Unwritten),
    ] {
        assert!(matches!(certain, ProviderError::Rejected(_)), "{certain:?}");
    }
    for unknown in [broken(call, WRITTEN, "x"), timed_out(call, limit, WRITTEN)] {
        let ProviderError::Unknown { may_run_for, .. } = unknown else {
            panic!("{unknown:?} should be unknown");
        };
        assert_eq!(may_run_for, Duration::from_secs(30) + TRANSIT);
    }
    assert!(matches!(
        nothing_left(call, Duration::ZERO),
        ProviderError::NotSent(_)
    ));
}

#[test]
fn a_call_whose_budget_is_spent_may_still_run_for_the_transit() {
    let spent = Progress::Written {
        budget: Duration::from_secs(5),
        elapsed: Duration::from_secs(9),
    };
    let ProviderError::Unknown { may_run_for, .. } = broken(Call::Release, spent, "x") else {
        panic!("unknown");
    };
    assert_eq!(may_run_for, TRANSIT);
}

#[test]
fn a_long_body_is_cut_between_characters() {
    let body = "é".repeat(5000);
    let said = refused(Call::Allocate, 500, body.as_bytes()).to_string();
    let text = said
        .strip_prefix("iaas allocate API returned status 500: ")
        .expect("prefix");
    assert_eq!(text, format!("{}…", "é".repeat(512)));
}

#[test]
fn control_characters_are_shown_not_sent_to_the_terminal() {
    let said = refused(Call::Allocate, 500, b"a\nb\x1b[2Jc\0").to_string();
    assert_eq!(
        said,
        r"iaas allocate API returned status 500: a\nb\u{1b}[2Jc\u{0}"
    );
}

proptest! {
    #[test]
    fn any_body_gives_a_short_printable_text(body in prop::collection::vec(any::<u8>(), 0..6000)) {
        let said = refused(Call::Allocate, 500, &body).to_string();
        prop_assert!(!said.chars().any(char::is_control));
        // The longest escape of a control character is `\u{9f}`, six characters.
        prop_assert!(said.chars().count() <= 60 + 512 * 6);
    }
}
