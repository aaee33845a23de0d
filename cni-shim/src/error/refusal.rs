//! The agent's "no", as far as it explains itself.

use orbweaver_api::grpc::Failure;
use prost::Message;
use tonic::Status;

use super::code;

/// Longest message of the agent that is passed on, in characters: a runtime shows it in a pod's event.
const MESSAGE_MAX: usize = 2048;

/// A status that the agent sent, and the [`Failure`] in its details.
#[derive(Debug)]
pub struct Refusal {
    code: tonic::Code,
    message: String,
    failure: Option<Box<Failure>>,
}

impl From<&Status> for Refusal {
    fn from(status: &Status) -> Self {
        let details = status.details();
        let failure = if details.is_empty() {
            None
        } else {
            Failure::decode(details).ok().map(Box::new)
        };
        Self {
            code: status.code(),
            message: cut(status.message()),
            failure,
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.message.as_str() {
            "" => write!(
                f,
                "{}, without saying why",
                code::of_grpc(self.code.into()).message
            ),
            message => f.write_str(message),
        }
    }
}

impl Refusal {
    /// The agent's time ran out, and it does not say in which stage.
    pub(crate) fn is_an_unexplained_timeout(&self) -> bool {
        matches!(self.code, tonic::Code::DeadlineExceeded | tonic::Code::Cancelled) && self.failure.is_none()
    }

    pub(super) fn cni_code(&self) -> u32 {
        code::of_grpc(self.code.into()).code
    }

    /// Stage, reason, outlook and remedy in one line.
    pub(super) fn details(&self) -> String {
        let Some(failure) = &self.failure else {
            return format!("gRPC status: {:?}", self.code);
        };
        let outlook = if failure.temporary {
            "temporary: yes, asking again may succeed"
        } else {
            "temporary: no, somebody has to act"
        };
        let parts = [
            ("stage: ", failure.stage.as_str()),
            ("reason: ", failure.reason.as_str()),
            ("", outlook),
            ("remedy: ", failure.remedy.as_str()),
        ];
        let said = parts.iter().filter(|(_, text)| !text.is_empty());
        let said: Vec<String> = said.map(|(name, text)| format!("{name}{}", cut(text))).collect();
        said.join("; ")
    }
}

fn cut(text: &str) -> String {
    text.chars().take(MESSAGE_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    #[test]
    fn the_agents_explanation_reaches_the_reader() {
        let failure = Failure {
            stage: "claim".into(),
            reason: "exhausted".into(),
            temporary: true,
            remedy: "add addresses to pool v4-shop".into(),
            request_id: "00ff".into(),
        };
        let status = Status::with_details(
            Code::ResourceExhausted,
            "no address",
            failure.encode_to_vec().into(),
        );
        let refusal = Refusal::from(&status);
        assert_eq!(
            refusal.details(),
            "stage: claim; reason: exhausted; temporary: yes, asking again may succeed; \
             remedy: add addresses to pool v4-shop"
        );
        assert_eq!(
            (refusal.to_string().as_str(), refusal.cni_code()),
            ("no address", 11)
        );
    }

    #[test]
    fn unreadable_details_are_no_obstacle() {
        let status = Status::with_details(Code::Internal, "", vec![0xff; 64].into());
        let refusal = Refusal::from(&status);
        assert_eq!(refusal.details(), "gRPC status: Internal");
        assert!(refusal.to_string().contains("without saying why"));
    }
}
