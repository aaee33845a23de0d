//! The node's links, asked of the kernel by netlink in the network namespace that the agent runs in (the
//! host's, because the daemon set uses `hostNetwork`).

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use orbweaver_actors::store::Links;
use orbweaver_api::mac::Mac;

/// Longest name that the kernel accepts (`IFNAMSIZ` less the final zero).
const NAME_LIMIT: usize = 15;
/// The kernel answers at once; this only bounds a wait that cannot end otherwise.
const ANSWER_BUDGET: Duration = Duration::from_secs(5);

/// Links as the kernel knows them.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetlinkLinks;

#[async_trait]
impl Links for NetlinkLinks {
    async fn mac_of(&self, link: &str) -> Result<Mac, String> {
        check_name(link)?;
        let name = link.to_owned();
        let asked = tokio::task::spawn_blocking(move || ask_kernel(&name));
        match tokio::time::timeout(ANSWER_BUDGET, asked).await {
            Ok(Ok(answer)) => answer.map_err(|why| format!("link {link:?} of this node: {why}")),
            Ok(Err(_)) => Err(format!("link {link:?} of this node: the question was cancelled")),
            Err(_) => Err(format!(
                "link {link:?} of this node: the kernel did not answer in 5s"
            )),
        }
    }
}

/// Links whose MACs the operator gave (a NIC in another namespace, or handed through to a guest), then those
/// that the kernel knows.
#[derive(Clone, Debug, Default)]
pub struct NodeLinks {
    /// MACs by link name.
    pub given: BTreeMap<String, Mac>,
}

#[async_trait]
impl Links for NodeLinks {
    async fn mac_of(&self, link: &str) -> Result<Mac, String> {
        match self.given.get(link) {
            Some(mac) => Ok(*mac),
            None => NetlinkLinks.mac_of(link).await,
        }
    }
}

/// What the kernel accepts as a name, so that the error is about the annotation and not about netlink.
fn check_name(link: &str) -> Result<(), String> {
    let usable = !link.is_empty()
        && link.len() <= NAME_LIMIT
        && link != "."
        && link != ".."
        && link
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'/' && byte != b':');
    if usable {
        Ok(())
    } else {
        Err(format!(
            "{link:?} cannot be a link's name: 1 to {NAME_LIMIT} printable characters without '/' and ':'"
        ))
    }
}

fn ask_kernel(link: &str) -> Result<Mac, String> {
    let problem = |error: std::io::Error| format!("netlink: {error}");
    let mut socket = Socket::new(NETLINK_ROUTE).map_err(problem)?;
    socket.bind_auto().map_err(problem)?;
    socket.connect(&SocketAddr::new(0, 0)).map_err(problem)?;
    socket.send(&question(link), 0).map_err(problem)?;
    let (answer, _) = socket.recv_from_full().map_err(problem)?;
    read_answer(&answer)
}

/// RTM_GETLINK by name.
fn question(link: &str) -> Vec<u8> {
    let mut wanted = LinkMessage::default();
    wanted.attributes.push(LinkAttribute::IfName(link.to_owned()));
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    header.sequence_number = 1;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(RouteNetlinkMessage::GetLink(wanted)));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

fn read_answer(bytes: &[u8]) -> Result<Mac, String> {
    let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes)
        .map_err(|error| format!("netlink: an answer that cannot be read: {error}"))?;
    let link = match message.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => link,
        NetlinkPayload::Error(error) => return Err(error.to_io().to_string()),
        _ => return Err("netlink: an answer of another kind".to_owned()),
    };
    let address = link.attributes.into_iter().find_map(|attribute| match attribute {
        LinkAttribute::Address(address) => Some(address),
        _ => None,
    });
    let address = address.ok_or("it has no hardware address")?;
    let bytes: [u8; 6] = address.as_slice().try_into().map_err(|_| {
        format!(
            "its hardware address has {} bytes; a parent NIC needs an Ethernet address of 6",
            address.len()
        )
    })?;
    Ok(Mac::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_kernel_knows_the_loopback() {
        assert_eq!(
            NetlinkLinks.mac_of("lo").await.unwrap().to_string(),
            "00:00:00:00:00:00"
        );
    }

    #[tokio::test]
    async fn an_absent_link_is_named_in_the_error() {
        let error = NetlinkLinks.mac_of("none-such0").await.unwrap_err();
        assert!(
            error.contains("none-such0") && error.contains("No such device"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn what_cannot_be_a_name_is_not_asked() {
        for name in ["", "..", "a/b", "eth0 ", "abcdefghijklmnop", "a\nb"] {
            let error = NetlinkLinks.mac_of(name).await.unwrap_err();
            assert!(error.contains("cannot be a link's name"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_given_mac_beats_the_kernel() {
        let given: Mac = "fa:16:3e:00:00:01".parse().unwrap();
        let links = NodeLinks {
            given: BTreeMap::from([("lo".to_owned(), given)]),
        };
        assert_eq!(links.mac_of("lo").await, Ok(given));
        assert!(links.mac_of("none-such0").await.is_err());
    }

    #[test]
    fn garbage_is_an_error() {
        assert!(read_answer(&[]).is_err());
        assert!(read_answer(&[0xff; 64]).is_err());
    }
}
