//! The macros that make a struct of a layer's table, and one type of all structs.

/// Defines the struct of a layer from its table.
///
/// - `params` are written where they differ from the value that the runtime takes.
/// - `depends`: the value that the runtime takes is that of another param, which stands before; written where they differ.
/// - `always` are always written; after `=` is the initial value of the field.
/// - `derived` follow from the rest of the layer; in brackets is the runtime's default where that is not 0.
/// - `weights` in the order of `load_model`.
/// - `tops`: the rule that gives the shapes of the tops over bottoms of given shapes; [`unknown`] if they are not inferred.
/// - `since` tells the first release that reads the layer, where that is not [`OLDEST`](super::OLDEST).
///
/// [`unknown`]: super::shape::unknown
macro_rules! layer {
    (
        $(#[$doc:meta])*
        $name:ident($bottoms:expr, $tops:expr) {
            params { $( $(#[$pdoc:meta])* $id:literal $param:ident: $ty:ty = $default:expr, )* }
            $( depends { $( $(#[$edoc:meta])* $eid:literal $depends:ident: $ety:ty = $on:ident, )* } )?
            $( always { $( $(#[$adoc:meta])* $aid:literal $always:ident: $aty:ty = $initial:expr, )* } )?
            $( derived { $( $did:literal $derived:ident $(($ddefault:literal))? = $compute:expr, )* } )?
            $( weights { $( $storage:ident $weight:ident, )* } )?
            tops { $top_sizes:expr }
            $( since { $since:expr } )?
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        #[allow(missing_docs, non_snake_case)] // The names are those of ncnn's operator table.
        pub struct $name {
            $( $(#[$pdoc])* pub $param: $ty, )*
            $( $( $(#[$edoc])* pub $depends: $ety, )* )?
            $( $( $(#[$adoc])* pub $always: $aty, )* )?
            $( $( pub $weight: Option<$crate::tensor::Tensor>, )* )?
        }

        impl Default for $name {
            fn default() -> Self {
                #[allow(unused_mut)]
                let mut layer = $name {
                    $( $param: $default, )*
                    $( $( $depends: Default::default(), )* )?
                    $( $( $always: $initial, )* )?
                    $( $( $weight: None, )* )?
                };
                $( $( layer.$depends = layer.$on.clone(); )* )?
                layer
            }
        }

        impl $name {
            /// The name in the registry.
            pub const TYPE: &'static str = stringify!($name);
            /// How many blobs it reads.
            pub const BOTTOMS: $crate::ncnn::layer::Arity = $bottoms;
            /// How many blobs it computes.
            pub const TOPS: $crate::ncnn::layer::Arity = $tops;

            /// The params that must be written, by number.
            pub fn params(&self) -> $crate::ncnn::layer::Params {
                let mut params = $crate::ncnn::layer::Params::new();
                $(
                    let default: $ty = $default;
                    if self.$param != default {
                        params.push(($id, self.$param.clone().into()));
                    }
                )*
                $( $(
                    if self.$depends != self.$on {
                        params.push(($eid, self.$depends.clone().into()));
                    }
                )* )?
                $( $( params.push(($aid, self.$always.clone().into())); )* )?
                $( $(
                    let compute: fn(&$name) -> i32 = $compute;
                    let value = compute(self);
                    if value != 0 $(+ $ddefault)? {
                        params.push(($did, value.into()));
                    }
                )* )?
                params.sort_by_key(|(id, _)| *id);
                params
            }

            /// The first release of the runtime that reads this layer as this program writes it, but not before [`OLDEST`].
            ///
            /// [`OLDEST`]: crate::ncnn::layer::OLDEST
            pub fn since(&self) -> u32 {
                #[allow(unused_mut, unused_assignments)]
                let mut since: fn(&$name) -> u32 = |_| $crate::ncnn::layer::OLDEST;
                $( since = $since; )?
                since(self)
            }

            /// The shapes of the tops over bottoms of these shapes.
            pub(in $crate::ncnn) fn top_sizes(
                &self,
                bottoms: &[$crate::ncnn::layer::shape::Sizes],
                tops: usize,
            ) -> $crate::error::Result<$crate::ncnn::layer::shape::Tops> {
                type Rule = fn(
                    &$name,
                    &[$crate::ncnn::layer::shape::Sizes],
                    usize,
                ) -> $crate::error::Result<$crate::ncnn::layer::shape::Tops>;
                let rule: Rule = $top_sizes;
                rule(self, bottoms, tops)
            }

            /// The table of the layer.
            pub fn table() -> $crate::ncnn::layer::LayerInfo {
                let params = vec![
                    $( $crate::ncnn::layer::ParamInfo {
                        id: $id,
                        name: stringify!($param),
                        missing: $crate::ncnn::layer::Missing::Value(<$ty>::from($default).into()),
                    }, )*
                    $( $( $crate::ncnn::layer::ParamInfo {
                        id: $eid,
                        name: stringify!($depends),
                        missing: $crate::ncnn::layer::Missing::SameAs(stringify!($on)),
                    }, )* )?
                    $( $( $crate::ncnn::layer::ParamInfo { id: $aid, name: stringify!($always), missing: $crate::ncnn::layer::Missing::Other }, )* )?
                    $( $( $crate::ncnn::layer::ParamInfo {
                        id: $did,
                        name: stringify!($derived),
                        missing: $crate::ncnn::layer::Missing::Value((0 $(+ $ddefault)?).into()),
                    }, )* )?
                ];
                let weights = vec![ $( $( (stringify!($weight), $crate::ncnn::layer::Storage::$storage), )* )? ];
                $crate::ncnn::layer::LayerInfo { type_name: stringify!($name), params, weights }
            }

            /// The weights in the order of `load_model`.
            pub fn weights(&self) -> $crate::ncnn::layer::Weights<'_> {
                #[allow(unused_mut)]
                let mut weights = $crate::ncnn::layer::Weights::new();
                $( $(
                    if let Some(tensor) = &self.$weight {
                        weights.push($crate::ncnn::layer::Weight {
                            name: stringify!($weight),
                            storage: $crate::ncnn::layer::Storage::$storage,
                            tensor,
                        });
                    }
                )* )?
                weights
            }
        }
    };
}
pub(crate) use layer;

/// Defines [`Layer`] over the structs of all layers.
macro_rules! layers {
    ( $( $name:ident, )* ) => {
        /// A layer of any type.
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub enum Layer {
            $( #[doc = stringify!($name)] $name(Box<$name>), )*
        }

        $(
            impl From<$name> for Layer {
                fn from(layer: $name) -> Self {
                    Layer::$name(Box::new(layer))
                }
            }
        )*

        impl Layer {
            /// The name in the registry.
            pub fn type_name(&self) -> &'static str {
                match self { $( Layer::$name(_) => $name::TYPE, )* }
            }

            /// How many blobs it reads.
            pub fn bottoms(&self) -> Arity {
                match self { $( Layer::$name(_) => $name::BOTTOMS, )* }
            }

            /// How many blobs it computes.
            pub fn tops(&self) -> Arity {
                match self { $( Layer::$name(_) => $name::TOPS, )* }
            }

            /// The params that must be written, by number.
            pub fn params(&self) -> Params {
                match self { $( Layer::$name(layer) => layer.params(), )* }
            }

            /// The first release of the runtime that reads this layer, but not before [`OLDEST`].
            pub fn since(&self) -> u32 {
                match self { $( Layer::$name(layer) => layer.since(), )* }
            }

            /// The shapes of the tops over bottoms of these shapes.
            pub(in crate::ncnn) fn top_sizes(&self, bottoms: &[Sizes], tops: usize) -> Result<Tops> {
                match self { $( Layer::$name(layer) => layer.top_sizes(bottoms, tops), )* }
            }

            /// The weights in the order of `load_model`.
            pub fn weights(&self) -> Weights<'_> {
                match self { $( Layer::$name(layer) => layer.weights(), )* }
            }

            /// The tables of all layers.
            pub fn tables() -> Vec<LayerInfo> {
                vec![ $( $name::table(), )* ]
            }
        }
    };
}
pub(super) use layers;
