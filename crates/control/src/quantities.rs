//! Quantities in JSON: plain integers, the unit in the key.

/// Declares a module for `#[serde(with)]` that keeps a quantity as an integer.
macro_rules! quantity {
    ($module:ident, $type:ident, $of:ident, $as:ident) => {
        #[allow(dead_code)] // Not every quantity stands in both forms.
        pub mod $module {
            use serde::{Deserialize, Deserializer, Serializer};
            use tidegate_units::$type;

            pub fn serialize<S: Serializer>(value: &$type, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_u64(value.$as())
            }
            pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                u64::deserialize(deserializer).map($type::$of)
            }

            /// A quantity that may be missing.
            pub mod option {
                use super::{Deserialize, Deserializer, Serializer, $type};

                pub fn serialize<S: Serializer>(value: &Option<$type>, serializer: S) -> Result<S::Ok, S::Error> {
                    match value {
                        Some(value) => serializer.serialize_some(&value.$as()),
                        None => serializer.serialize_none(),
                    }
                }
                pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<$type>, D::Error> {
                    Ok(Option::<u64>::deserialize(deserializer)?.map($type::$of))
                }
            }
        }
    };
}

quantity!(bps, Rate, from_bps, as_bps);
quantity!(bytes, Bytes, new, as_u64);
quantity!(ns, Span, from_nanos, as_nanos);

/// Whether a count is left out because nothing was counted.
#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference.
pub fn is_zero(count: &u64) -> bool {
    *count == 0
}
