//! The node's links and the provider of a world.

use async_trait::async_trait;
use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::provider::{CallFailure, ProviderApi};
use orbweaver_actors::store::Links;
use orbweaver_api::mac::Mac;
use orbweaver_api::provider::{AllocateRequest, AllocateResponse, ReleaseRequest, SubEniResponse};

use super::World;

#[async_trait]
impl Links for World {
    async fn mac_of(&self, link: &str) -> Result<Mac, String> {
        if link == "eth1" {
            Ok("fa:16:3e:0a:00:01".parse().unwrap())
        } else {
            Err("there is no such link".to_owned())
        }
    }
}

#[async_trait]
impl ProviderApi for World {
    async fn allocate(
        &self,
        request: &AllocateRequest,
        _: Deadline,
        _: &str,
    ) -> Result<AllocateResponse, CallFailure> {
        self.state.lock().allocates.push(request.clone());
        self.gate.acquire().await.unwrap().forget();
        if let Some(error) = self.state.lock().provider_fails.pop_front() {
            return Err(error.into());
        }
        let items = (9..).zip(&request.sub_eni_requests);
        let bound = items.map(|(vlan, item)| SubEniResponse {
            ipv4_address: item.ipv4_address.clone(),
            mac_address: format!("fa:16:3e:00:00:{vlan:02x}"),
            vlan_id: Some(vlan),
            ..SubEniResponse::default()
        });
        Ok(AllocateResponse {
            sub_eni_responses: bound.collect(),
            ..AllocateResponse::default()
        })
    }

    async fn release(&self, request: &ReleaseRequest, _: Deadline, _: &str) -> Result<(), CallFailure> {
        let claimed = self.claims(&request.pool_name);
        let mut state = self.state.lock();
        state.releases.push(request.clone());
        let held = claimed.iter().any(|(address, _)| *address == request.ip_address);
        assert!(held, "the provider releases before the pool does");
        match state.release_fails.pop_front() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}
