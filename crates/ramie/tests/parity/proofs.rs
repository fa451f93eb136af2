//! The proof of a line of the parity table: the same source, compiled with std and with Ramie.
//!
//! Each macro also makes a function that lists the proved items, as the table spells them.

/// Calls each function from one of the same signature.
///
/// Generics and `where` clauses stand in brackets, and before `fn` its qualifiers. std's `self` is
/// `this`.
macro_rules! calls {
    ([$($path:tt)+] $(
        $([$($before:tt)+])? fn $name:ident $([$($generics:tt)*])?
        ($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? $(where [$($clause:tt)*])?;
    )*) => {
        calls! { @each [$($path)+] $(
            { [$($($before)+)?] $name [$($($generics)*)?] [$($argument: $type),*] [$(-> $result)?]
            [$($($clause)*)?] [$($argument),*] }
        )* }
    };
    (@each $path:tt $($function:tt)*) => { $(calls! { @one $path $function })* };
    (@one [$($path:tt)+] { [$($before:tt)*] $name:ident [$($generics:tt)*] [$($arguments:tt)*]
        [$($result:tt)*] [$($clause:tt)*] [$($given:tt)*] }) => {
        const _: () = {
            #[allow(dead_code, deprecated, unsafe_op_in_unsafe_fn)]
            $($before)* fn $name<$($generics)*>($($arguments)*) $($result)* where $($clause)* {
                $($path)+::$name($($given)*)
            }
        };
    };
}

/// The names of functions, each behind a prefix.
macro_rules! names {
    ($prefix:expr; $(
        $([$($before:tt)+])? fn $name:ident $([$($generics:tt)*])?
        ($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? $(where [$($clause:tt)*])?;
    )*) => { [$(concat!($prefix, stringify!($name))),*] };
}

/// The functions of a module.
macro_rules! functions {
    ($module:ident; $($function:tt)*) => {
        calls! { [$module] $($function)* }
        fn functions() -> Vec<&'static str> {
            names!(""; $($function)*).to_vec()
        }
    };
}

/// The functions of types and traits. A type in brackets distinguishes functions of one name.
macro_rules! methods {
    ($($owner:ident $([$of:ty])? { $($function:tt)* })*) => {
        $(calls! { [$owner $(::<$of>)?] $($function)* })*
        fn methods() -> Vec<&'static str> {
            let mut methods = Vec::new();
            $(methods.extend(names!(concat!(stringify!($owner), "::"); $($function)*));)*
            methods
        }
    };
}

/// Traits of types, each in brackets: a value of the type passes for one of the trait.
macro_rules! impls {
    ($($generics:tt $type:ty: $([$($bound:tt)+])+;)*) => {
        $($(const _: () = passes! { $generics $type: $($bound)+ };)+)*
        fn impls() -> Vec<&'static str> {
            vec![$($(concat!(stringify!($type), ": ", stringify!($($bound)+))),+),*]
        }
    };
}

macro_rules! passes {
    ([$($generics:tt)*] $type:ty: $($bound:tt)+) => {{
        #[allow(dead_code)]
        fn passes<$($generics)*>(value: $type) -> impl $($bound)+ {
            value
        }
    }};
}

/// Traits that types must not have: a second candidate would make the name ambiguous.
macro_rules! lacks {
    ($($type:ty: $($bound:ident),+;)*) => {
        $($(const _: fn() = || {
            trait Ambiguous<A> {
                fn is_lacking() {}
            }
            impl<T: ?Sized> Ambiguous<()> for T {}
            #[allow(dead_code)]
            struct Has;
            impl<T: ?Sized + $bound> Ambiguous<Has> for T {}
            let _ = <$type as Ambiguous<_>>::is_lacking;
        };)+)*
        fn lacks() -> Vec<&'static str> {
            vec![$($(concat!(stringify!($type), ": !", stringify!($bound))),+),*]
        }
    };
}

/// Constants, by their types.
macro_rules! constants {
    ($($constant:path: $type:ty;)*) => {
        $(const _: $type = {
            #[allow(deprecated)]
            let constant = $constant;
            constant
        };)*
        fn constants() -> Vec<&'static str> {
            vec![$(stringify!($constant)),*]
        }
    };
}

/// Types and traits: the names alone.
macro_rules! types {
    ($($type:ident $([$($argument:tt),+])?),* $(,)?) => {
        $(const _: () = {
            #[allow(dead_code)]
            fn is_named(_: &$type $(<$($argument),+>)?) {}
        };)*
        fn types() -> Vec<&'static str> {
            vec![$(stringify!($type)),*]
        }
    };
}

macro_rules! traits {
    ($($trait:ident),* $(,)?) => {
        $(const _: () = {
            #[allow(dead_code)]
            fn is_named<T: $trait>() {}
        };)*
        fn traits() -> Vec<&'static str> {
            vec![$(stringify!($trait)),*]
        }
    };
}

/// Public fields, by their types.
macro_rules! fields {
    ($($owner:ident { $($field:ident: $type:ty),+ $(,)? })*) => {
        $($(const _: () = {
            #[allow(dead_code)]
            fn is_a_field(owner: &mut $owner) -> &mut $type {
                &mut owner.$field
            }
        };)+)*
        fn fields() -> Vec<&'static str> {
            vec![$($(concat!(stringify!($owner), "::", stringify!($field))),+),*]
        }
    };
}

/// Macros: each in a closure that is never called.
macro_rules! macros {
    ($($name:ident => ($($use:tt)+);)+) => {
        $(const _: () = {
            #[allow(unused_must_use, clippy::dbg_macro)]
            let _ = $($use)+;
        };)+
        fn macros() -> Vec<&'static str> {
            vec![$(concat!(stringify!($name), "!")),+]
        }
    };
}

/// Items that are std's own here, too, at the same path. A mixture would not compile.
macro_rules! left_to_std {
    (std $(:: $module:ident)+ {
        $(types: $($type:ident $([$($argument:tt)+])?),+;)?
        $(traits: $($trait:ident),+;)?
        $(functions: $($function:ident $([$($given:ty),+])?),+;)?
    }) => {
        #[allow(dead_code, unused_imports, unused_assignments, unused_variables, deprecated)]
        mod left_to_std {
            mod theirs {
                pub(super) use ::std $(:: $module)+::*;
            }
            mod here {
                pub(super) use super::super::std $(:: $module)+::*;
            }
            $($(const _: () = {
                fn is_theirs(
                    value: Box<here::$type $(<$($argument)+>)?>,
                ) -> Box<theirs::$type $(<$($argument)+>)?> {
                    value
                }
            };)+)?
            $($(const _: () = {
                fn is_theirs<T: here::$trait>(value: T) -> impl theirs::$trait {
                    value
                }
                fn is_here<T: theirs::$trait>(value: T) -> impl here::$trait {
                    value
                }
            };)+)?
            fn are_theirs() {
                $($(
                    let mut function = here::$function $(::<$($given),+>)?;
                    function = theirs::$function $(::<$($given),+>)?;
                )+)?
            }
        }
        pub(crate) fn left_to_std() -> Vec<&'static str> {
            vec![
                $($(stringify!($type),)+)?
                $($(stringify!($trait),)+)?
                $($(stringify!($function),)+)?
            ]
        }
    };
}
