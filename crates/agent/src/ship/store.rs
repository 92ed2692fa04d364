//! A dataset in an object store, by the crate `object_store`: Amazon's S3 and what speaks it, Google's, Azure's, HTTP.
//!
//! Its calls are asynchronous, and nothing else here is: a runtime of the delivering thread alone performs them. Credentials
//! come from the environment or the machine's role.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path as ObjectPath;
use object_store::{
    ClientOptions, Error, ObjectStore, ObjectStoreExt, ObjectStoreScheme, PutPayload, RetryConfig,
    WriteMultipart,
};
use tokio::runtime::Runtime;
use url::Url;

use super::name::Key;

/// Longer files are sent in parts of this length, so that memory does not grow with them. S3 takes no shorter parts than
/// 5 MiB.
const PART_BYTES: usize = 8 << 20;

/// Begins of the names of environment variables that set stores up, as the stores' own programs have them.
const VARIABLES: [&str; 3] = ["AWS_", "AZURE_", "GOOGLE_"];

/// An object store, and where in it the dataset is.
pub(super) struct Store {
    runtime: Runtime,
    store: Box<dyn ObjectStore>,
    has_parts: bool,
    root: ObjectPath,
}

/// A builder that is set up from the environment, and does not try again by itself: the delivering thread does.
macro_rules! build {
    ($builder:ty, $url:expr, $client:expr) => {{
        let retry = RetryConfig {
            max_retries: 0,
            ..RetryConfig::default()
        };
        let builder = <$builder>::new()
            .with_url($url)
            .with_client_options($client)
            .with_retry(retry);
        let builder = variables().fold(builder, |builder, (name, value)| match name.parse() {
            Ok(key) => builder.with_config(key, value),
            Err(_) => builder,
        });
        Box::new(builder.build()?) as Box<dyn ObjectStore>
    }};
}

impl Store {
    /// Sets a store up; nothing is sent yet.
    ///
    /// # Errors
    /// When the URL, or what the environment says of it, cannot be meant.
    pub(super) fn new(url: &str) -> Result<Self, String> {
        // one of rustls' two; the other is a C library of a minute's build
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = Url::parse(url).map_err(|error| error.to_string())?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let (scheme, path) = ObjectStoreScheme::parse(&url).map_err(|error| error.to_string())?;
        let has_parts = scheme != ObjectStoreScheme::Http;
        let store = open(&scheme, &url).map_err(|error| plain(&error))?;
        Ok(Self {
            runtime,
            store,
            has_parts,
            root: path,
        })
    }

    /// Puts a file in its place: it is there as a whole or not at all.
    pub(super) fn put(&self, key: &Key, from: &Path) -> io::Result<()> {
        let mut file = File::open(from)?;
        let path = self.path(key);
        let is_short = file.metadata()?.len() <= PART_BYTES as u64;
        if is_short || !self.has_parts {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            let put = self.store.put(&path, PutPayload::from(bytes));
            self.runtime.block_on(put).map_err(as_io)?;
            return Ok(());
        }
        self.runtime.block_on(self.put_parts(&path, &mut file))
    }

    async fn put_parts(&self, path: &ObjectPath, file: &mut File) -> io::Result<()> {
        let upload = self.store.put_multipart(path).await.map_err(as_io)?;
        let mut parts = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
        let mut buffer = vec![0; PART_BYTES];
        loop {
            // one part on its way while the next is read
            parts.wait_for_capacity(1).await.map_err(as_io)?;
            match file.read(&mut buffer)? {
                0 => break,
                read => parts.write(&buffer[..read]),
            }
        }
        parts.finish().await.map_err(as_io)?;
        Ok(())
    }

    /// Removes a file; that there is none is as well, whatever a store says of it: some call that a failure.
    ///
    /// # Errors
    /// `PermissionDenied` when the file is there and the store will not remove it; any other when the store is away.
    pub(super) fn remove(&self, key: &Key) -> io::Result<()> {
        let path = self.path(key);
        self.runtime.block_on(async {
            let Err(error) = self.store.delete(&path).await else {
                return Ok(());
            };
            match self.store.head(&path).await {
                Err(Error::NotFound { .. }) => Ok(()),
                Ok(_) => Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    plain(&error),
                )),
                Err(_) => Err(as_io(error)),
            }
        })
    }

    fn path(&self, key: &Key) -> ObjectPath {
        let parts = self.root.parts();
        parts
            .chain(ObjectPath::from(key.path()).parts())
            .map(|part| part.as_ref().to_owned())
            .collect()
    }
}

fn open(scheme: &ObjectStoreScheme, url: &Url) -> Result<Box<dyn ObjectStore>, Error> {
    // who writes http:// has seen it
    let client = ClientOptions::new().with_allow_http(url.scheme() == "http");
    Ok(match scheme {
        ObjectStoreScheme::AmazonS3 => build!(AmazonS3Builder, url.as_str(), client),
        ObjectStoreScheme::GoogleCloudStorage => {
            build!(GoogleCloudStorageBuilder, url.as_str(), client)
        }
        ObjectStoreScheme::MicrosoftAzure => build!(MicrosoftAzureBuilder, url.as_str(), client),
        _ => build!(HttpBuilder, &url[..url::Position::BeforePath], client),
    })
}

/// Settings of stores from the environment, with names as `object_store` has them.
fn variables() -> impl Iterator<Item = (String, String)> {
    let all = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let of_stores =
        |(name, _): &(String, String)| VARIABLES.iter().any(|own| name.starts_with(own));
    all.filter(of_stores)
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
}

fn as_io(error: Error) -> io::Error {
    let kind = match error {
        Error::NotFound { .. } => io::ErrorKind::NotFound,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            io::ErrorKind::PermissionDenied
        }
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, plain(&error))
}

/// What an error says, on one line, and without what follows a question mark in a URL: there may be a signature.
fn plain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    let words = text
        .split_whitespace()
        .map(|word| match word.split_once('?') {
            Some((before, _)) if word.contains("://") => before,
            _ => word,
        });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_hold_no_signatures() {
        let source = "GET https://a.example/c/x?sv=1&sig=SECRET failed,\nwhy?".into();
        let error = Error::Generic {
            store: "Azure",
            source,
        };
        let text = plain(&error);
        assert!(!text.contains("SECRET") && !text.contains('\n'), "{text}");
        assert!(
            text.contains("https://a.example/c/x failed, why?"),
            "{text}"
        );
    }

    #[test]
    fn paths_are_below_the_folder_of_the_url() {
        let store = Store::new("http://127.0.0.1:1/a/b").expect("a store");
        let stem = super::super::name::Stem::new("h", "0");
        let key = Key::of_minute("fleet_problems", &stem, 0).expect("a key");
        let path = store.path(&key);
        assert_eq!(path.as_ref(), format!("a/b/{}", key.path()));
    }
}
