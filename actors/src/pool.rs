//! The Pool actor.
