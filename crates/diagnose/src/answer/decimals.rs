//! Shares as JSON has them.

use serde::ser::Serializer;

/// Writes a share with nine decimals: smaller digits are rounding errors of this machine.
pub(crate) fn nine_decimals<S: Serializer>(share: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((share * 1e9).round() / 1e9)
}

/// Writes a share with nine decimals; an unknown share is null.
pub(crate) fn maybe_nine_decimals<S: Serializer>(
    share: &Option<f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match share {
        Some(share) => nine_decimals(share, serializer),
        None => serializer.serialize_none(),
    }
}
