//! Macros that define the struct of a layer from its table, and the enum of all layers.

/// Defines the structs of layers from their tables.
///
/// - `params` are written if they differ from ncnn's default.
/// - `depends`: params whose default is the value of an earlier param; written if they differ from it.
/// - `always` are always written; the initial value of the field is after `=`, and after `=>` the value of a
///   layer whose file leaves the param out, computed from the others.
/// - `derived` are computed from the rest of the layer; ncnn's default is in parentheses unless it is 0.
/// - `weights` are in the order of `load_model`.
/// - `reads` returns the weights that `load_model` reads, for the shape of the first bottom; none by default.
/// - `tops` is the shape rule: it returns the shapes of the tops for the shapes of the bottoms and the number
///   of tops. By default the top has the shape of the first bottom; [`unknown`](super::shape::unknown) infers
///   no shapes.
/// - `work` returns the multiply-adds; 0 by default.
/// - `since` returns the first release that reads the layer unless it is [`OLDEST`](super::OLDEST).
/// - `also` are further methods of [`Facts`](super::Facts) with another answer than the default.
///
/// The number before the name is the type in the binary form of the `.param` file, its index in ncnn's
/// `src/CMakeLists.txt`. The words after the arities are its [`Trait`](super::Trait)s.
macro_rules! layer {
    ( $(
        $(#[$doc:meta])*
        $index:literal $name:ident($bottoms:expr, $tops:expr) $( [ $( $trait:ident )* ] )? {
            $( params { $( $(#[$pdoc:meta])* $id:literal $param:ident: $ty:ty = $default:expr, )* } )?
            $( depends { $( $(#[$edoc:meta])* $eid:literal $depends:ident: $ety:ty = $on:ident, )* } )?
            $( always { $( $(#[$adoc:meta])* $aid:literal $always:ident: $aty:ty = $initial:expr => $left_out:expr, )* } )?
            $( derived { $( $did:literal $derived:ident $(($ddefault:literal))? = $compute:expr, )* } )?
            $( weights { $( $storage:ident $weight:ident, )* } )?
            $( reads { $reads:expr } )?
            $( tops { $shape_rule:expr } )?
            $( work { $work:expr } )?
            $( since { $since:expr } )?
            $( also { $( $also:tt )* } )?
        }
    )+ ) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        #[allow(missing_docs, non_snake_case)] // The names are from ncnn's operator table.
        pub struct $name {
            $( $( $(#[$pdoc])* pub $param: $ty, )* )?
            $( $( $(#[$edoc])* pub $depends: $ety, )* )?
            $( $( $(#[$adoc])* pub $always: $aty, )* )?
            $( $( pub $weight: Option<$crate::tensor::Tensor>, )* )?
        }

        impl Default for $name {
            fn default() -> Self {
                #[allow(unused_mut)]
                let mut layer = $name {
                    $( $( $param: $default, )* )?
                    $( $( $depends: Default::default(), )* )?
                    $( $( $always: $initial, )* )?
                    $( $( $weight: None, )* )?
                };
                $( $( layer.$depends = layer.$on.clone(); )* )?
                layer
            }
        }

        impl $name {
            /// The name in ncnn's layer registry.
            pub const TYPE: &'static str = stringify!($name);
            /// The index in ncnn's layer registry.
            pub const INDEX: i32 = $index;
            /// The number of bottoms.
            pub const BOTTOMS: $crate::ncnn::layer::Arity = $bottoms;
            /// The number of tops.
            pub const TOPS: $crate::ncnn::layer::Arity = $tops;

            /// Returns the name in ncnn's layer registry.
            pub fn type_name(&self) -> &'static str {
                $name::TYPE
            }

            /// Returns the params to write, sorted by id.
            pub fn params(&self) -> $crate::ncnn::layer::Params {
                let mut params = $crate::ncnn::layer::Params::new();
                $( $(
                    let default: $ty = $default;
                    if !$crate::ncnn::layer::IsDefault::is(&self.$param, &default) {
                        params.push(($id, self.$param.clone().into()));
                    }
                )* )?
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

            /// Returns the first release that reads this layer with these params, at least [`OLDEST`].
            ///
            /// [`OLDEST`]: crate::ncnn::layer::OLDEST
            pub fn since(&self) -> u32 {
                #[allow(unused_mut, unused_assignments)]
                let mut since: fn(&$name) -> u32 = |_| $crate::ncnn::layer::OLDEST;
                $( since = $since; )?
                since(self)
            }

            /// Returns the table of the layer.
            pub fn table() -> $crate::ncnn::layer::LayerInfo {
                let params = vec![
                    $( $( $crate::ncnn::layer::ParamInfo {
                        id: $id,
                        name: stringify!($param),
                        missing: $crate::ncnn::layer::Missing::Value(<$ty>::from($default).into()),
                    }, )* )?
                    $( $( $crate::ncnn::layer::ParamInfo {
                        id: $eid,
                        name: stringify!($depends),
                        missing: $crate::ncnn::layer::Missing::SameAs(stringify!($on)),
                    }, )* )?
                    $( $( $crate::ncnn::layer::ParamInfo {
                        id: $aid,
                        name: stringify!($always),
                        missing: $crate::ncnn::layer::Missing::Other,
                    }, )* )?
                    $( $( $crate::ncnn::layer::ParamInfo {
                        id: $did,
                        name: stringify!($derived),
                        missing: $crate::ncnn::layer::Missing::Value((0 $(+ $ddefault)?).into()),
                    }, )* )?
                ];
                $crate::ncnn::layer::LayerInfo {
                    index: $index,
                    type_name: stringify!($name),
                    params,
                    weights: vec![
                        $( $( (stringify!($weight), $crate::ncnn::layer::Storage::$storage), )* )?
                    ],
                }
            }

            /// Returns the weights in the order of `load_model`.
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

        impl $crate::ncnn::layer::Facts for $name {
            fn index(&self) -> i32 {
                $index
            }

            fn has(&self, wanted: $crate::ncnn::layer::Trait) -> bool {
                let traits: &[$crate::ncnn::layer::Trait] = &[$( $( $crate::ncnn::layer::Trait::$trait ),* )?];
                traits.contains(&wanted)
            }

            $( fn reads(&self, bottom: &[$crate::tensor::Dim]) -> $crate::ncnn::layer::weight::Reads {
                let reads: $crate::ncnn::layer::weight::Rule<$name> = $reads;
                reads(self, bottom)
            } )?

            $( fn top_sizes(
                &self,
                bottoms: &[$crate::ncnn::layer::shape::Sizes],
                tops: usize,
            ) -> $crate::error::Result<$crate::ncnn::layer::shape::Tops> {
                let rule: $crate::ncnn::layer::shape::Rule<$name> = $shape_rule;
                rule(self, bottoms, tops)
            } )?

            $( fn work(&self, work: &$crate::ncnn::layer::Work) -> Option<u64> {
                let rule: fn(&$name, &$crate::ncnn::layer::Work) -> Option<u64> = $work;
                rule(self, work)
            } )?

            $( $( $also )* )?

        }

        impl $crate::ncnn::layer::Settable for $name {
            fn set(&mut self, params: &$crate::ncnn::layer::StatedParams) -> $crate::error::Result<()> {
                params.check_known(&[
                    $( $( $id, )* )? $( $( $eid, )* )? $( $( $aid, )* )? $( $( $did, )* )?
                ])?;
                $( $( params.put($id, &mut self.$param)?; )* )?
                $( $(
                    self.$depends = self.$on.clone();
                    params.put($eid, &mut self.$depends)?;
                )* )?
                $( $(
                    let left_out: fn(&$name) -> $aty = $left_out;
                    let value = left_out(self);
                    self.$always = value;
                    params.put($aid, &mut self.$always)?;
                )* )?
                Ok(())
            }

            fn set_weight(&mut self, name: &str, weight: $crate::tensor::Tensor) -> $crate::error::Result<()> {
                match name {
                    $( $( stringify!($weight) => {
                        self.$weight = Some(weight);
                        Ok(())
                    } )* )?
                    _ => $crate::error::invalid!("it has no weight {name} of {} elements", weight.len()),
                }
            }
        }
    )+ };
}
pub(crate) use layer;

/// Defines the enum [`Layer`] of the structs of all layers.
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
            /// Returns the name in ncnn's layer registry.
            pub fn type_name(&self) -> &'static str {
                match self { $( Layer::$name(layer) => layer.type_name(), )* }
            }

            /// Returns the number of bottoms.
            pub fn bottoms(&self) -> Arity {
                match self { $( Layer::$name(_) => $name::BOTTOMS, )* }
            }

            /// Returns the number of tops.
            pub fn tops(&self) -> Arity {
                match self { $( Layer::$name(_) => $name::TOPS, )* }
            }

            /// Returns the params to write, sorted by id.
            pub fn params(&self) -> Params {
                match self { $( Layer::$name(layer) => layer.params(), )* }
            }

            /// Returns the first release that reads this layer with these params, at least [`OLDEST`].
            pub fn since(&self) -> u32 {
                match self { $( Layer::$name(layer) => layer.since(), )* }
            }

            /// Returns a layer with default params by its name in ncnn's layer registry.
            pub(in crate::ncnn) fn named(type_name: &str) -> Option<Layer> {
                $( if type_name == $name::TYPE {
                    return Some($name::default().into());
                } )*
                None
            }

            /// Returns a layer with default params by its index in ncnn's layer registry.
            pub(in crate::ncnn) fn indexed(index: i32) -> Option<Layer> {
                $( if index == $name::INDEX {
                    return Some($name::default().into());
                } )*
                None
            }

            /// Returns how params and weights are set.
            pub(in crate::ncnn) fn settable(&mut self) -> &mut dyn Settable {
                match self { $( Layer::$name(layer) => &mut **layer, )* }
            }

            /// Returns what its table says besides params and weights.
            pub(in crate::ncnn) fn facts(&self) -> &dyn Facts {
                match self { $( Layer::$name(layer) => &**layer, )* }
            }

            /// Returns the weights in the order of `load_model`.
            pub fn weights(&self) -> Weights<'_> {
                match self { $( Layer::$name(layer) => layer.weights(), )* }
            }

            /// Returns the tables of all layers.
            pub fn tables() -> Vec<LayerInfo> {
                // A layer of the user has no type before it is declared.
                [ $( $name::table(), )* ].into_iter().filter(|table| !table.type_name.is_empty()).collect()
            }
        }
    };
}
pub(super) use layers;
