//! A dataset in an object store, by the crate `object_store`: Amazon's S3 and what speaks it, Google's, Azure's, HTTP.
//!
//! Its calls are asynchronous, and nothing else here is: a runtime of the delivering thread alone performs them. Credentials
//! come from the environment or the machine's role.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::multipart::MultipartStore;
use object_store::path::Path as ObjectPath;
use object_store::{
    ClientOptions, Error, ObjectStore, ObjectStoreExt, ObjectStoreScheme, PutPayload, RetryConfig,
};
use tokio::runtime::Runtime;
use url::Url;

use super::name::FileKey;
use super::uploads::{Upload, Uploads};

/// Longer files are sent in parts of this length, so that memory does not grow with them. S3 takes no shorter parts than
/// 5 MiB.
const PART_BYTES: usize = 8 << 20;

/// Tries to end an upload that the store keeps; then its own rule for unfinished uploads must.
const ABORTS: u32 = 3;

/// Begins of the names of environment variables that set stores up, as the stores' own programs have them.
const VARIABLES: [&str; 3] = ["AWS_", "AZURE_", "GOOGLE_"];

/// An object store, and where in it the dataset is.
pub(super) struct ObjectStoreTarget {
    runtime: Runtime,
    client: Client,
    url: String,
    root: ObjectPath,
    uploads: Uploads,
    aborts: u32,
}

/// One client under the names of what it can do.
struct Client {
    store: Arc<dyn ObjectStore>,
    /// `None`: it takes no files in parts.
    in_parts: Option<Arc<dyn MultipartStore>>,
}

impl Client {
    /// Makes a client of an object store.
    fn of<S: ObjectStore + MultipartStore>(store: S) -> Self {
        let store = Arc::new(store);
        Self {
            in_parts: Some(Arc::clone(&store) as Arc<dyn MultipartStore>),
            store,
        }
    }
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
        builder.build()?
    }};
}

impl ObjectStoreTarget {
    /// Sets a store up; nothing is sent yet. The spool remembers uploads that an earlier agent did not finish.
    ///
    /// # Errors
    /// When the URL, or what the environment says of it, cannot be meant.
    pub(super) fn new(url: &str, spool: &Path) -> Result<Self, String> {
        // one of rustls' two; the other is a C library of a minute's build
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = Url::parse(url).map_err(|error| error.to_string())?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let (scheme, path) = ObjectStoreScheme::parse(&url).map_err(|error| error.to_string())?;
        let client = open(&scheme, &url).map_err(|error| plain(&error))?;
        Ok(Self {
            runtime,
            client,
            url: url.into(),
            root: path,
            uploads: Uploads::read(spool),
            aborts: 0,
        })
    }

    /// Uploads a file: it is there as a whole or not at all.
    pub(super) fn put_file(&mut self, key: &FileKey, from: &Path) -> io::Result<()> {
        self.end_left_over()?;
        let mut file = File::open(from)?;
        let path = self.path(key);
        let is_short = file.metadata()?.len() <= PART_BYTES as u64;
        let in_parts = self.client.in_parts.clone().filter(|_| !is_short);
        let Some(in_parts) = in_parts else {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            let put = self.client.store.put(&path, PutPayload::from(bytes));
            self.runtime.block_on(put).map_err(as_io)?;
            return Ok(());
        };
        let create = in_parts.create_multipart(&path);
        let id = self.runtime.block_on(create).map_err(as_io)?;
        let upload = Upload {
            target: self.url.clone(),
            path: path.to_string(),
            id,
        };
        let begun = self.uploads.begin(upload.clone());
        let put = put_parts(&*in_parts, &path, &upload.id, &mut file);
        let put = begun.and_then(|()| self.runtime.block_on(put));
        match put {
            Ok(()) => self.uploads.end(&upload),
            // if not now, then before the next file
            Err(_) => drop(self.end_left_over()),
        }
        put
    }

    /// Ends uploads that were begun and not finished. The one of a store that is configured no more is left to that.
    ///
    /// # Errors
    /// When the store is away.
    fn end_left_over(&mut self) -> io::Result<()> {
        while let Some(upload) = self.uploads.first() {
            if let Some(in_parts) = &self.client.in_parts
                && upload.target == self.url
            {
                let path = ObjectPath::from(upload.path.as_str());
                let abort = in_parts.abort_multipart(&path, &upload.id);
                match self.runtime.block_on(abort) {
                    Ok(()) | Err(Error::NotFound { .. }) => {}
                    Err(error) => {
                        self.aborts += 1;
                        if self.aborts < ABORTS {
                            return Err(as_io(error));
                        }
                    }
                }
            }
            self.aborts = 0;
            self.uploads.end(&upload);
        }
        Ok(())
    }

    /// Removes a file. A file that does not exist counts as removed: some stores report that as a failure.
    ///
    /// # Errors
    /// `PermissionDenied` when the file is there and the store will not remove it; any other when the store is away.
    pub(super) fn remove(&self, key: &FileKey) -> io::Result<()> {
        let path = self.path(key);
        self.runtime.block_on(async {
            let Err(error) = self.client.store.delete(&path).await else {
                return Ok(());
            };
            match self.client.store.head(&path).await {
                Err(Error::NotFound { .. }) => Ok(()),
                Ok(_) => Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    plain(&error),
                )),
                Err(_) => Err(as_io(error)),
            }
        })
    }

    /// Returns the object's path of a file.
    fn path(&self, key: &FileKey) -> ObjectPath {
        let parts = self.root.parts();
        parts
            .chain(ObjectPath::from(key.path()).parts())
            .map(|part| part.as_ref().to_owned())
            .collect()
    }
}

/// Uploads a file in parts.
async fn put_parts(
    store: &dyn MultipartStore,
    path: &ObjectPath,
    id: &String,
    file: &mut File,
) -> io::Result<()> {
    let mut parts = Vec::new();
    loop {
        let mut part = Vec::new();
        file.take(PART_BYTES as u64).read_to_end(&mut part)?;
        if part.is_empty() {
            break;
        }
        let put = store.put_part(path, id, parts.len(), part.into());
        parts.push(put.await.map_err(as_io)?);
    }
    let whole = store.complete_multipart(path, id, parts);
    whole.await.map_err(as_io)?;
    Ok(())
}

/// Opens the object store that a URL names.
fn open(scheme: &ObjectStoreScheme, url: &Url) -> Result<Client, Error> {
    // who writes http:// has seen it
    let client = ClientOptions::new().with_allow_http(url.scheme() == "http");
    let url_text = url.as_str();
    Ok(match scheme {
        ObjectStoreScheme::AmazonS3 => Client::of(build!(AmazonS3Builder, url_text, client)),
        ObjectStoreScheme::GoogleCloudStorage => {
            Client::of(build!(GoogleCloudStorageBuilder, url_text, client))
        }
        ObjectStoreScheme::MicrosoftAzure => {
            Client::of(build!(MicrosoftAzureBuilder, url_text, client))
        }
        _ => Client {
            store: Arc::new(build!(
                HttpBuilder,
                &url[..url::Position::BeforePath],
                client
            )),
            in_parts: None,
        },
    })
}

/// Returns the settings of object stores from the environment.
fn variables() -> impl Iterator<Item = (String, String)> {
    let all = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let of_stores =
        |(name, _): &(String, String)| VARIABLES.iter().any(|own| name.starts_with(own));
    all.filter(of_stores)
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
}

/// Turns an error of the store into one of input and output.
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

/// Returns an error on one line, without the query of a URL: it may have a signature.
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
    use object_store::memory::InMemory;

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
        let spool = tempfile::tempdir().expect("a directory");
        let store =
            ObjectStoreTarget::new("http://127.0.0.1:1/a/b", spool.path()).expect("a store");
        let path = store.path(&a_key());
        assert_eq!(path.as_ref(), format!("a/b/{}", a_key().path()));
    }

    /// Makes the key of a file.
    fn a_key() -> FileKey {
        let stem = super::super::name::FileStem::new("h", "0");
        FileKey::from_minute("fleet_problems", &stem, 0).expect("a key")
    }

    /// Makes a store in memory; its agent keeps its spool here.
    fn in_memory(spool: &Path, memory: &InMemory) -> ObjectStoreTarget {
        let store = ObjectStoreTarget::new("s3://bucket", spool).expect("a store");
        let shared = memory.clone();
        ObjectStoreTarget {
            client: Client::of(shared),
            ..store
        }
    }

    #[test]
    fn an_upload_that_a_kill_left_is_ended_before_the_next_file() {
        let spool = tempfile::tempdir().expect("a directory");
        let memory = InMemory::new();
        let mut killed = in_memory(spool.path(), &memory);
        let path = ObjectPath::from("large.parquet");
        let create = memory.create_multipart(&path);
        let id = killed.runtime.block_on(create).expect("an upload");
        let upload = Upload {
            target: killed.url.clone(),
            path: path.to_string(),
            id: id.clone(),
        };
        killed.uploads.begin(upload).expect("written");
        drop(killed);

        let mut next = in_memory(spool.path(), &memory);
        let file = spool.path().join("file");
        std::fs::write(&file, "short").expect("a file");
        next.put_file(&a_key(), &file).expect("there");
        let part = memory.put_part(&path, &id, 0, "late".into());
        assert!(next.runtime.block_on(part).is_err(), "it goes on");
        assert!(!spool.path().join("uploads.json").exists());
    }

    #[test]
    fn a_long_file_goes_in_parts_and_none_is_left() {
        let spool = tempfile::tempdir().expect("a directory");
        let memory = InMemory::new();
        let mut store = in_memory(spool.path(), &memory);
        let file = spool.path().join("file");
        let bytes: Vec<u8> = (0..2 * PART_BYTES + 17).map(|at| at as u8).collect();
        std::fs::write(&file, &bytes).expect("a file");
        store.put_file(&a_key(), &file).expect("there");
        let path = store.path(&a_key());
        let got = store
            .runtime
            .block_on(async { memory.get(&path).await?.bytes().await });
        assert!(got.expect("the file") == bytes);
        assert!(!spool.path().join("uploads.json").exists());
    }
}
