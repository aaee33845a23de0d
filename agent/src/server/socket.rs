//! The socket file: made without stealing another agent's, open to root only, gone when the agent stops.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};
use tracing::{info, warn};

/// Owner and group may connect.
const MODE: u32 = 0o660;

/// The socket cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Somebody listens there.
    #[error("another agent listens on {0}; stop it first, or give this one another --socket")]
    InUse(PathBuf),
    /// A file that is no socket.
    #[error("{0} exists and is not a socket; remove it, or give another --socket")]
    NotASocket(PathBuf),
    /// The system refused.
    #[error("the socket {path} cannot be made: {action}")]
    Io {
        /// The path.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// A listening socket and its file.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode, so that a successor's file is not removed.
    identity: (u64, u64),
}

impl Socket {
    /// Binds `path`; a file left by an agent that died is removed first. `group` gets access beside the
    /// agent's user.
    pub async fn bind(path: &Path, group: Option<u32>) -> Result<Self, SocketError> {
        let failed = |action| {
            let path = path.to_owned();
            move |source| SocketError::Io { path, action, source }
        };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed("creating its directory"))?;
        }
        clear_stale(path).await?;
        let listener = UnixListener::bind(path).map_err(failed("binding it"))?;
        if group.is_some() {
            std::os::unix::fs::chown(path, None, group).map_err(failed("giving it to the group"))?;
        }
        fs::set_permissions(path, Permissions::from_mode(MODE)).map_err(failed("setting its mode"))?;
        let file = fs::metadata(path).map_err(failed("reading it back"))?;
        info!(path = %path.display(), "listening");
        Ok(Self {
            listener,
            path: path.to_owned(),
            identity: (file.dev(), file.ino()),
        })
    }

    /// The next connection.
    pub async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }

    /// Stops listening and removes the file if it is still ours.
    pub fn close(self) {
        let ours = fs::metadata(&self.path).is_ok_and(|file| (file.dev(), file.ino()) == self.identity);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            warn!(path = %self.path.display(), %error, "the socket could not be removed");
        }
    }
}

async fn clear_stale(path: &Path) -> Result<(), SocketError> {
    // Absent; anything else that is wrong with the path, binding will say.
    let Ok(file) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !file.file_type().is_socket() {
        return Err(SocketError::NotASocket(path.to_owned()));
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|source| SocketError::Io {
                path: path.to_owned(),
                action: "removing a stale one",
                source,
            })
        }
        _ => Err(SocketError::InUse(path.to_owned())),
    }
}

/// Who may connect: root (the container runtime), the agent's own user, and the socket's group. The file's
/// mode says the same, but a mode can be changed by whoever owns the directory.
#[derive(Clone, Copy, Debug)]
pub struct Peers {
    own_user: u32,
    group: Option<u32>,
}

impl Peers {
    /// With the agent's own user, as the kernel shows it.
    pub fn new(group: Option<u32>) -> io::Result<Self> {
        let own_user = fs::metadata("/proc/self")?.uid();
        Ok(Self { own_user, group })
    }

    /// The error says who it was.
    pub fn check(&self, stream: &UnixStream) -> Result<(), String> {
        let peer = stream
            .peer_cred()
            .map_err(|error| format!("the peer's user cannot be read: {error}"))?;
        self.allow(peer.uid(), peer.gid())
            .map_err(|why| format!("{why} (process {:?})", peer.pid()))
    }

    fn allow(&self, user: u32, group: u32) -> Result<(), String> {
        if user == 0 || user == self.own_user || self.group == Some(group) {
            return Ok(());
        }
        Err(format!(
            "user {user}, group {group} may not use this socket: only root, user {}{}",
            self.own_user,
            self.group
                .map(|group| format!(" and group {group}"))
                .unwrap_or_default(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/agent.sock");
        let first = Socket::bind(&path, None).await.unwrap();
        assert!(matches!(
            Socket::bind(&path, None).await,
            Err(SocketError::InUse(_))
        ));
        // Dies without cleaning up.
        drop(first);
        let second = Socket::bind(&path, None).await.unwrap();
        second.close();
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn only_owner_and_group_may_open_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let _socket = Socket::bind(&path, None).await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    }

    #[tokio::test]
    async fn a_file_is_never_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(
            Socket::bind(&path, None).await,
            Err(SocketError::NotASocket(_))
        ));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[tokio::test]
    async fn a_successors_socket_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let first = Socket::bind(&path, None).await.unwrap();
        fs::rename(&path, folder.path().join("moved.sock")).unwrap();
        let _second = Socket::bind(&path, None).await.unwrap();
        first.close();
        assert!(path.exists());
    }

    #[test]
    fn only_root_the_own_user_and_the_group_may_connect() {
        let peers = Peers {
            own_user: 1000,
            group: Some(20),
        };
        assert!(peers.allow(0, 0).is_ok());
        assert!(peers.allow(1000, 7).is_ok());
        assert!(peers.allow(7, 20).is_ok());
        assert!(peers.allow(7, 7).unwrap_err().contains("user 7"));
        let without_group = Peers {
            own_user: 1000,
            group: None,
        };
        assert!(without_group.allow(7, 20).is_err());
    }
}
