//! The plugin's log file: one JSON object per line.
//!
//! Many processes write to one file at once, so a line is one `write` on a descriptor opened for appending.
//! The reference fails the command when the file cannot be opened. Here a log never fails a command: a full
//! or read-only disk must neither keep pods from starting nor keep their addresses from being released.
//! The caller gets the error to print as a warning.

mod rotation;
mod timestamp;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Serialize;

/// Where lines go by default (reference §3.1).
pub const DEFAULT_PATH: &str = "/var/log/spidernet/spiderpool.log";
/// Longest message in a line, in characters. It keeps a line within a few pages, which a file system appends whole.
const MESSAGE_MAX: usize = 4096;

/// How grave an event is; names as in the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
    Panic,
    Fatal,
}

impl Level {
    /// Mildest first.
    pub const ALL: [Self; 6] = [
        Self::Debug,
        Self::Info,
        Self::Warn,
        Self::Error,
        Self::Panic,
        Self::Fatal,
    ];

    /// As in `ipam.log_level`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::Panic => "panic",
            Self::Fatal => "fatal",
        }
    }

    /// The level of that name, in any case.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|level| level.name().eq_ignore_ascii_case(name))
    }
}

/// `ipam.log_*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Milder events are dropped. The reference's code says `debug` and its documentation `info`; a line per
    /// request is what an operator wants by default.
    pub level: Level,
    /// The file that is written; rotated ones lie beside it.
    pub path: PathBuf,
    /// Size in MiB at which the file is set aside. Never zero.
    pub max_megabytes: u32,
    /// Days that a rotated file is kept; 0: for ever.
    pub max_days: u32,
    /// Rotated files that are kept; 0: all.
    pub max_count: u32,
}

impl Default for Settings {
    /// Reference §3.1.
    fn default() -> Self {
        Self {
            level: Level::Info,
            path: PathBuf::from(DEFAULT_PATH),
            max_megabytes: 100,
            max_days: 30,
            max_count: 10,
        }
    }
}

/// What each line of one run says about it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Facts {
    /// The verb.
    pub command: &'static str,
    /// `CNI_CONTAINERID`.
    pub container: String,
    /// `CNI_IFNAME`.
    pub nic: String,
    /// `namespace/name`.
    pub pod: String,
    /// Joins this log with the agent's.
    pub request_id: String,
}

/// The open log of one run.
#[derive(Debug)]
pub struct Log {
    file: File,
    level: Level,
    facts: Facts,
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    level: &'static str,
    #[serde(flatten)]
    facts: &'a Facts,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<f64>,
}

impl Log {
    /// Opens the file, makes its directory, rotates what is due.
    ///
    /// # Errors
    /// The file cannot be opened. A rotation that fails is left to the next run.
    pub fn open(settings: &Settings, facts: Facts) -> io::Result<Self> {
        if let Some(directory) = settings.path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let mut file = append(&settings.path)?;
        if rotation::rotate(settings, SystemTime::now()).unwrap_or(false) {
            file = append(&settings.path)?;
        }
        Ok(Self {
            file,
            level: settings.level,
            facts,
        })
    }

    /// Writes one line, unless `level` is too mild.
    ///
    /// # Errors
    /// The write failed.
    pub fn write(&mut self, level: Level, message: &str, duration: Option<Duration>) -> io::Result<()> {
        if level < self.level {
            return Ok(());
        }
        let line = line(SystemTime::now(), level, &self.facts, message, duration);
        self.file.write_all(line.as_bytes())
    }
}

fn append(path: &Path) -> io::Result<File> {
    // Pod names and addresses are nobody's business but root's.
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

fn line(now: SystemTime, level: Level, facts: &Facts, message: &str, duration: Option<Duration>) -> String {
    let cut = message
        .char_indices()
        .nth(MESSAGE_MAX)
        .map_or(message, |(end, _)| &message[..end]);
    let duration_ms = duration.map(|duration| (duration.as_secs_f64() * 1e6).round() / 1e3);
    let line = Line {
        time: timestamp::rfc3339(now),
        level: level.name(),
        facts,
        message: cut,
        duration_ms,
    };
    crate::result::json(&line) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(path: PathBuf) -> Settings {
        Settings {
            path,
            ..Settings::default()
        }
    }

    #[test]
    fn a_line_is_one_json_object_with_all_facts() {
        let facts = Facts {
            command: "ADD",
            container: "c1".into(),
            nic: "eth0".into(),
            pod: "shop/cart-0".into(),
            request_id: "00ff".into(),
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        let text = line(
            now,
            Level::Info,
            &facts,
            "two\nlines",
            Some(Duration::from_micros(1500)),
        );
        assert_eq!(
            text,
            concat!(
                r#"{"time":"2023-11-14T22:13:20.123Z","level":"info","command":"ADD","container":"c1","#,
                r#""nic":"eth0","pod":"shop/cart-0","request_id":"00ff","message":"two\nlines","duration_ms":1.5}"#,
                "\n"
            )
        );
    }

    #[test]
    fn milder_events_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(folder.path().join("new/folder/cni.log"));
        let mut log = Log::open(&settings, Facts::default()).unwrap();
        for level in Level::ALL {
            log.write(level, level.name(), None).unwrap();
        }
        let text = std::fs::read_to_string(&settings.path).unwrap();
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(!text.contains("debug"));
    }

    #[test]
    fn lines_of_concurrent_writers_stay_whole() {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(folder.path().join("cni.log"));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut log = Log::open(&settings, Facts::default()).unwrap();
                    for _ in 0..50 {
                        log.write(Level::Info, &"x".repeat(MESSAGE_MAX + 9), None)
                            .unwrap();
                    }
                });
            }
        });
        let text = std::fs::read_to_string(&settings.path).unwrap();
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 400);
        assert!(
            lines
                .iter()
                .all(|line| line["message"].as_str().unwrap().len() == MESSAGE_MAX)
        );
    }

    #[test]
    fn levels_are_read_in_any_case() {
        assert_eq!(Level::parse("INFO"), Some(Level::Info));
        assert_eq!(Level::parse("warning"), None);
    }
}
