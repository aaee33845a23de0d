//! Admission of pools and reserved addresses (reference §5.2, §6.6).
//!
//! - [`pool_mutation`] completes a pool, [`pool_rules`] judges it: pure, and so is [`reserved_rules`].
//! - [`pod_mutation`] says what a pod gets for its [`networks`], where [`injection`] is on: pure.
//! - [`review`] reads an `AdmissionReview` and writes its answer: pure.
//! - [`server`] is the TLS port in front, [`certificate`] what it shows; [`cache`] knows the other pools.
//! - [`keeper`] makes, shares and renews the certificate ([`authority`]) and sees that API servers [`trust`] it.
//! - [`registrar`] judges what gains addresses: of overlapping pools that are created at once one is admitted, whichever
//!   replicas are asked, because each admission is first [pledged](pledge) in one object by compare-and-swap.
//!
//! Every replica serves; none needs to lead for it.

pub mod authority;
pub mod cache;
pub mod certificate;
pub mod finding;
pub mod iaas_rules;
pub mod injection;
pub mod keeper;
pub mod networks;
pub mod pledge;
pub mod pod_mutation;
pub mod pool_fields;
pub mod pool_mutation;
pub mod pool_rules;
pub mod registrar;
pub mod registration;
pub mod reserved_rules;
pub mod review;
pub mod selector;
pub mod server;
pub mod trust;

use orbweaver_api::address_set::Family;

/// What admission is told about the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `enableIPv4` of `conf.yml`.
    pub ipv4: bool,
    /// `enableIPv6` of `conf.yml`.
    pub ipv6: bool,
    /// Pools that hold claims may not be deleted; otherwise they wait for their claims by the finalizer.
    pub guard_deletes: bool,
}

impl Settings {
    /// Whether addresses of this family are handed out.
    pub fn enables(&self, family: Family) -> bool {
        match family {
            Family::V4 => self.ipv4,
            Family::V6 => self.ipv6,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ipv4: true,
            ipv6: true,
            guard_deletes: false,
        }
    }
}
