//! Setting a full log file aside, and removing what is too old or too much.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{Settings, timestamp};

const DAY: Duration = Duration::from_secs(86_400);

/// Rotates when the file is full, and prunes then or once a day. True: the file was set aside, open it again.
///
/// One process at a time does this, under a lock that the others do not wait for: they go on writing to the
/// file that is being renamed, which loses nothing.
pub(super) fn rotate(settings: &Settings, now: SystemTime) -> io::Result<bool> {
    let path = &settings.path;
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return Ok(false);
    }
    let lock_path = with_suffix(path, ".lock");
    if found.len() < max_bytes(settings) && !pruning_is_due(&lock_path, now) {
        return Ok(false);
    }
    let lock = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&lock_path)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(false),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let moved = set_aside(settings, now)?;
    prune(settings, now)?;
    remember_pruning(&lock, now)?;
    Ok(moved)
}

fn max_bytes(settings: &Settings) -> u64 {
    u64::from(settings.max_megabytes) << 20
}

/// Age must count on a node so quiet that its file is never full.
fn pruning_is_due(lock_path: &Path, now: SystemTime) -> bool {
    let last = fs::metadata(lock_path).and_then(|lock| lock.modified());
    last.map_or(true, |last| {
        now.duration_since(last).is_ok_and(|since| since >= DAY)
    })
}

fn remember_pruning(lock: &File, now: SystemTime) -> io::Result<()> {
    lock.set_modified(now)
}

fn set_aside(settings: &Settings, now: SystemTime) -> io::Result<bool> {
    // Whoever held the lock before may just have done it.
    if fs::metadata(&settings.path)?.len() < max_bytes(settings) {
        return Ok(false);
    }
    let (stem, extension) = name_parts(&settings.path);
    let name = format!("{stem}-{}{extension}", timestamp::for_file_name(now));
    let target = settings.path.with_file_name(name);
    if target.exists() {
        return Ok(false);
    }
    fs::rename(&settings.path, target)?;
    Ok(true)
}

fn prune(settings: &Settings, now: SystemTime) -> io::Result<()> {
    let mut rotated = rotated(&settings.path)?;
    rotated.sort_unstable_by(|a, b| b.cmp(a));
    let max_age = DAY * settings.max_days;
    for (index, path) in rotated.iter().enumerate() {
        let too_many = settings.max_count != 0 && index >= settings.max_count as usize;
        let modified = fs::metadata(path).and_then(|file| file.modified());
        let age = modified
            .ok()
            .and_then(|modified| now.duration_since(modified).ok());
        let too_old = settings.max_days != 0 && age.is_some_and(|age| age > max_age);
        if too_many || too_old {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn rotated(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (stem, extension) = name_parts(path);
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let middle = name.to_str().and_then(|name| {
            name.strip_prefix(stem.as_str())?
                .strip_prefix('-')?
                .strip_suffix(extension.as_str())
        });
        if middle.is_some_and(timestamp::is_for_file_name) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// `spiderpool.log` -> `spiderpool`, `.log`.
fn name_parts(path: &Path) -> (String, String) {
    let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let extension = path.extension().map(|_| format!(".{}", text(path.extension())));
    (text(path.file_stem()), extension.unwrap_or_default())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder {
        folder: tempfile::TempDir,
        settings: Settings,
    }

    impl Folder {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("spiderpool.log");
            fs::write(&path, "").unwrap();
            let settings = Settings {
                path,
                max_megabytes: 1,
                max_days: 30,
                max_count: 2,
                ..Settings::default()
            };
            Self { folder, settings }
        }

        fn fill(&self) {
            fs::write(&self.settings.path, vec![b'x'; 1 << 20]).unwrap();
        }

        fn rotate(&self, now: SystemTime) -> bool {
            let moved = rotate(&self.settings, now).unwrap();
            if moved {
                fs::write(&self.settings.path, "").unwrap();
            }
            moved
        }

        fn rotated(&self) -> usize {
            rotated(&self.settings.path).unwrap().len()
        }
    }

    #[test]
    fn a_file_is_set_aside_when_it_is_full_and_not_before() {
        let folder = Folder::new();
        let now = SystemTime::now();
        assert!(!folder.rotate(now));
        folder.fill();
        assert!(folder.rotate(now));
        assert!(!folder.rotate(now));
        assert_eq!(folder.rotated(), 1);
    }

    #[test]
    fn no_more_rotated_files_are_kept_than_wanted_and_the_oldest_go_first() {
        let folder = Folder::new();
        let start = SystemTime::now();
        for second in 0..4 {
            folder.fill();
            assert!(folder.rotate(start + Duration::from_secs(second)));
        }
        let mut kept = rotated(&folder.settings.path).unwrap();
        kept.sort_unstable();
        let name = |second| {
            format!(
                "spiderpool-{}.log",
                timestamp::for_file_name(start + Duration::from_secs(second))
            )
        };
        let wanted = [2, 3].map(|second| folder.folder.path().join(name(second)));
        assert_eq!(kept, wanted);
    }

    #[test]
    fn old_files_go_even_if_the_log_never_fills_and_others_stay() {
        let folder = Folder::new();
        let start = SystemTime::now();
        folder.fill();
        assert!(folder.rotate(start));
        for name in ["spiderpool-old.log", "other.log"] {
            fs::write(folder.folder.path().join(name), "").unwrap();
        }
        folder.rotate(start + DAY * 29);
        assert_eq!(folder.rotated(), 1);
        folder.rotate(start + DAY * 31);
        assert_eq!(folder.rotated(), 0);
        assert!(folder.folder.path().join("spiderpool-old.log").exists());
    }

    #[test]
    fn a_process_does_not_wait_for_another_that_rotates() {
        let folder = Folder::new();
        folder.fill();
        let lock = File::create(with_suffix(&folder.settings.path, ".lock")).unwrap();
        lock.lock().unwrap();
        assert!(!folder.rotate(SystemTime::now()));
        drop(lock);
        assert!(folder.rotate(SystemTime::now()));
    }

    #[test]
    fn a_device_is_never_rotated() {
        let settings = Settings {
            path: "/dev/null".into(),
            ..Settings::default()
        };
        assert!(!rotate(&settings, SystemTime::now()).unwrap());
        assert!(!Path::new("/dev/null.lock").exists());
    }
}
