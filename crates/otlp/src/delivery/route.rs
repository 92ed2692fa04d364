//! The way of one signal: its endpoint, and a client for it.

use super::client::Client;
use super::outcome::Outcome;
use super::{grpc, http};
use crate::settings::{DeliveryOptions, Endpoint, Protocol, SettingError};
use crate::signal::{Message, Signal};

/// Endpoint and client of one signal.
pub(super) struct Route {
    endpoint: Endpoint,
    client: Client,
}

impl Route {
    /// Reads settings and certificates; nothing is sent yet.
    pub(super) fn new(
        signal: Signal,
        options: &DeliveryOptions,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, SettingError> {
        let endpoint = Endpoint::new(signal, options, lookup)?;
        Ok(Self {
            client: Client::new(&endpoint)?,
            endpoint,
        })
    }

    /// Returns the address without possible secrets.
    pub(super) fn address(&self) -> String {
        let mut url = self.endpoint.url.clone();
        // nothing there can fail for http and https
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_query(None);
        url.to_string()
    }

    /// Sends a message once.
    pub(super) async fn exchange(&self, message: &Message) -> Outcome {
        match self.endpoint.protocol {
            Protocol::HttpProtobuf => http::exchange(&self.client, &self.endpoint, message).await,
            Protocol::Grpc => grpc::exchange(&self.client, &self.endpoint, message).await,
        }
    }
}
