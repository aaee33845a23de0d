//! One request at a time for each pod, in the order of arrival: an ADD that is being undone and its own
//! retry never interleave, and a late DEL of an earlier pod never meets the ADD of its successor halfway.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Who waits, from first to last; the first has the turn.
#[derive(Debug)]
pub struct Turns<T> {
    lines: HashMap<Arc<str>, VecDeque<T>>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self {
            lines: HashMap::new(),
        }
    }
}

impl<T> Turns<T> {
    /// Joins the line of a pod; `grant` is called with whoever has the turn now if that is the newcomer.
    /// `grant` answers false when the one it is given has gone away: then the next one is asked.
    pub fn enter(&mut self, pod: &Arc<str>, who: T, grant: impl FnMut(&Arc<str>, &mut T) -> bool) {
        let line = self.lines.entry(pod.clone()).or_default();
        line.push_back(who);
        if line.len() == 1 {
            self.offer(pod, grant);
        }
    }

    /// The one with the turn is done.
    pub fn leave(&mut self, pod: &Arc<str>, grant: impl FnMut(&Arc<str>, &mut T) -> bool) {
        if let Some(line) = self.lines.get_mut(pod) {
            line.pop_front();
        }
        self.offer(pod, grant);
    }

    fn offer(&mut self, pod: &Arc<str>, mut grant: impl FnMut(&Arc<str>, &mut T) -> bool) {
        let Some(line) = self.lines.get_mut(pod) else {
            return;
        };
        while let Some(first) = line.front_mut() {
            if grant(pod, first) {
                return;
            }
            line.pop_front();
        }
        self.lines.remove(pod);
    }

    /// Pods with somebody in line.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// True when nobody is in any line.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_go_in_order_and_pods_do_not_wait_for_each_other() {
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let mut turns = Turns::default();
        let mut granted = Vec::new();
        for (pod, who) in [(&a, 1), (&a, 2), (&b, 3)] {
            turns.enter(pod, who, |_, who| {
                granted.push(*who);
                true
            });
        }
        turns.leave(&a, |_, who| {
            granted.push(*who);
            true
        });
        turns.leave(&a, |_, _| true);
        assert_eq!((granted, turns.len()), (vec![1, 3, 2], 1));
    }

    #[test]
    fn one_who_went_away_is_passed_over() {
        let a: Arc<str> = "a".into();
        let mut turns = Turns::default();
        for who in [1, 2, 3] {
            turns.enter(&a, who, |_, _| true);
        }
        let mut granted = Vec::new();
        turns.leave(&a, |_, who| {
            granted.push(*who);
            *who != 2
        });
        assert_eq!(granted, [2, 3]);
        turns.leave(&a, |_, _| true);
        assert!(turns.is_empty());
    }
}
