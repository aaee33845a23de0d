//! Durations behave as Go's `time.ParseDuration` and `Duration.String`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use orbweaver_api::duration::GoDuration;
use proptest::prelude::*;

fn parse(text: &str) -> Option<i64> {
    text.parse::<GoDuration>().ok().map(|duration| duration.0)
}

const MICRO: i64 = 1_000;
const MILLI: i64 = 1_000_000;
const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

#[test]
fn what_go_reads_is_read_alike() {
    for (text, expected) in [
        ("0", 0),
        ("+0", 0),
        ("-0", 0),
        ("0s", 0),
        ("5s", 5 * SECOND),
        ("+5s", 5 * SECOND),
        ("-5s", -5 * SECOND),
        ("-1.5s", -3 * SECOND / 2),
        (".5s", SECOND / 2),
        ("1.s", SECOND),
        ("-.5s", -SECOND / 2),
        ("1478s", 1478 * SECOND),
        ("1.004s", SECOND + 4 * MILLI),
        ("1.0040s", SECOND + 4 * MILLI),
        ("100.00100s", 100 * SECOND + MILLI),
        ("10ns", 10),
        ("11us", 11 * MICRO),
        ("1\u{b5}s", MICRO),
        ("1\u{3bc}s", MICRO),
        ("13ms", 13 * MILLI),
        ("14s", 14 * SECOND),
        ("15m", 15 * MINUTE),
        ("16h", 16 * HOUR),
        ("3h30m", 3 * HOUR + 30 * MINUTE),
        ("1h1m1.5s", HOUR + MINUTE + 3 * SECOND / 2),
        ("4m10.5s", 4 * MINUTE + 10 * SECOND + SECOND / 2),
        // Units in any order, and more than once.
        ("1s1h", HOUR + SECOND),
        ("1m1m", 2 * MINUTE),
        (
            "1h2m3s4ms5us6ns",
            HOUR + 2 * MINUTE + 3 * SECOND + 4 * MILLI + 5 * MICRO + 6,
        ),
        // Below a nanosecond nothing is kept.
        ("0.9ns", 0),
        ("1.9ns", 1),
        ("0.3333333333333333333h", 20 * MINUTE),
        ("0.100000000000000000000h", 6 * MINUTE),
        (
            "0.830103483285477580700h",
            49 * MINUTE + 48 * SECOND + 372_539_827,
        ),
        ("9007199254.740993ms", 9_007_199_254_740_993),
        ("9223372036854775807ns", i64::MAX),
        ("9223372036854775.807us", i64::MAX),
        ("9223372036s854ms775us807ns", i64::MAX),
        ("2562047h47m16.854775807s", i64::MAX),
        ("-9223372036854775808ns", i64::MIN),
        ("-9223372036854775.808us", i64::MIN),
        ("-2562047h47m16.854775808s", i64::MIN),
    ] {
        assert_eq!(parse(text), Some(expected), "{text:?}");
    }
}

#[test]
fn what_go_refuses_is_refused() {
    for text in [
        "",
        ".",
        "-",
        "+",
        "s",
        "3",
        "-3",
        ".s",
        "-.",
        "+.s",
        "1x",
        "1d",
        "1S",
        "3000000h",
        "9223372036854775808ns",
        "9223372036854775.808us",
        "9223372036854ms775us808ns",
        "-9223372036854775809ns",
        "-9223372036854775808ns1ns",
        "18446744073709551616ns",
        "99999999999999999999999h",
        " 1s",
        "1s ",
        "1 s",
        "--1s",
        "+-1s",
        "1s-1s",
        "1..5s",
        "1.5.s",
        "1e3s",
        "\u{661}s",
        "1\u{2126}s",
        "00",
        "\u{b5}s",
    ] {
        let error = match text.parse::<GoDuration>() {
            Err(error) => error,
            Ok(duration) => panic!("{text:?} was read as {duration}"),
        };
        assert!(error.to_string().contains("50s"), "no remedy in {error}");
    }
}

#[test]
fn a_refusal_shows_a_readable_piece_of_a_long_text() {
    let error = "x".repeat(10_000).parse::<GoDuration>().unwrap_err();
    assert!(error.to_string().len() < 400);
}

#[test]
fn it_prints_as_go_prints() {
    for (nanoseconds, expected) in [
        (0, "0s"),
        (1, "1ns"),
        (-1, "-1ns"),
        (999, "999ns"),
        (1_100, "1.1\u{b5}s"),
        (2_200_000, "2.2ms"),
        (3_300_000_000, "3.3s"),
        (SECOND, "1s"),
        (50 * SECOND, "50s"),
        (MINUTE, "1m0s"),
        (100 * SECOND, "1m40s"),
        (120 * SECOND, "2m0s"),
        (4 * MINUTE + 5 * SECOND, "4m5s"),
        (4 * MINUTE + 5_001 * MILLI, "4m5.001s"),
        (5 * HOUR + 6 * MINUTE + 7_001 * MILLI, "5h6m7.001s"),
        (8 * MINUTE + 1, "8m0.000000001s"),
        (HOUR, "1h0m0s"),
        (i64::MAX, "2562047h47m16.854775807s"),
        (i64::MIN, "-2562047h47m16.854775808s"),
    ] {
        assert_eq!(GoDuration(nanoseconds).to_string(), expected);
    }
}

#[test]
fn a_negative_duration_is_no_time_to_wait() {
    assert_eq!(GoDuration(-1).to_std(), None);
    assert_eq!(GoDuration::from_secs(i64::MAX), GoDuration(i64::MAX));
    assert_eq!(GoDuration::from(std::time::Duration::MAX), GoDuration(i64::MAX));
    let json = serde_json::to_string(&GoDuration::from_secs(90)).unwrap();
    assert_eq!(json, r#""1m30s""#);
    assert_eq!(
        serde_json::from_str::<GoDuration>(&json).unwrap(),
        GoDuration::from_secs(90)
    );
}

proptest! {
    #[test]
    fn every_duration_is_read_back_from_what_it_prints(nanoseconds: i64) {
        let printed = GoDuration(nanoseconds).to_string();
        prop_assert_eq!(parse(&printed), Some(nanoseconds), "{}", printed);
    }

    #[test]
    fn small_durations_too(nanoseconds in -2_000_000_000i64..2_000_000_000) {
        prop_assert_eq!(parse(&GoDuration(nanoseconds).to_string()), Some(nanoseconds));
    }

    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        let _ = parse(&text);
    }

    #[test]
    fn no_text_of_durations_letters_makes_it_panic(text in "[-+.0-9nu\u{b5}\u{3bc}msh]{0,40}") {
        let _ = parse(&text);
    }
}
