//! gRPC codes and CNI codes.

use orbweaver_api::cni_code::{self, of_grpc};

#[test]
fn every_grpc_code_maps() {
    use cni_code::{FAILED, INVALID_CONFIGURATION, NOT_SUPPORTED, REFUSED, TRY_AGAIN_LATER};
    let expected = [
        ("CANCELLED", 1, TRY_AGAIN_LATER),
        ("UNKNOWN", 2, FAILED),
        ("INVALID_ARGUMENT", 3, INVALID_CONFIGURATION),
        ("DEADLINE_EXCEEDED", 4, TRY_AGAIN_LATER),
        ("NOT_FOUND", 5, TRY_AGAIN_LATER),
        ("ALREADY_EXISTS", 6, FAILED),
        ("PERMISSION_DENIED", 7, REFUSED),
        ("RESOURCE_EXHAUSTED", 8, TRY_AGAIN_LATER),
        ("FAILED_PRECONDITION", 9, REFUSED),
        ("ABORTED", 10, TRY_AGAIN_LATER),
        ("OUT_OF_RANGE", 11, FAILED),
        ("UNIMPLEMENTED", 12, NOT_SUPPORTED),
        ("INTERNAL", 13, FAILED),
        ("UNAVAILABLE", 14, TRY_AGAIN_LATER),
        ("DATA_LOSS", 15, FAILED),
        ("UNAUTHENTICATED", 16, REFUSED),
    ];
    for (name, grpc, cni) in expected {
        assert_eq!(of_grpc(grpc).code, cni, "{name}");
        assert!(!of_grpc(grpc).message.is_empty(), "{name}");
    }
}

#[test]
fn a_code_that_grpc_does_not_know_is_a_failure() {
    // 0 is OK, which is never an error's code.
    for code in [i32::MIN, -1, 0, 17, i32::MAX] {
        assert_eq!(of_grpc(code).code, cni_code::FAILED, "{code}");
    }
}

#[test]
fn codes_of_our_own_are_where_cni_leaves_room() {
    for code in (-1..20).map(|code| of_grpc(code).code) {
        assert!(code >= 100 || [7, 11].contains(&code), "{code}");
    }
}
