//! The macro that declares the calls; what follows from a declaration is written here once for all of them.

/// Declares the calls of the protocol, each once:
///
/// ```text
/// /// Documentation: of the client's method, of the handler, and of the section in the book.
/// method "name" (Request) -> Reply {
///     permission: Permission::Anyone,
///     client: PARAMETERS,
///     request: "{...}",
///     reply: "{...}",
/// }
/// ```
///
/// PARAMETERS are those of [`Client`](crate::Client)'s method: `()` for a request without parameters, `(request)` for the
/// request itself, `{ field: Type, ... }` for its fields, and `custom` where the method is written by hand, which the
/// compiler then demands. `=> field: Type` behind the first three returns that field of the reply alone.
///
/// From this come [`Call`](crate::protocol::Call) for the request, the method of the client, a method of
/// [`Service`](crate::calls::Service), which a daemon does not compile without, its place in
/// [`answer`](crate::calls::answer) behind the check of the permission, and an entry of [`CALLS`](crate::calls::CALLS),
/// from which the page of the book is generated and the tests know what there is.
macro_rules! calls {
    ($(
        $(#[doc = $doc:literal])+
        $method:ident $name:literal ($request:ident) -> $reply:ident {
            permission: $permission:expr,
            client: $parameters:tt $(=> $field:ident: $type:ty)?,
            request: $request_example:literal,
            reply: $reply_example:literal,
        }
    )+) => {
        $(
            impl Call for $request {
                const NAME: &'static str = $name;
                const PERMISSION: Permission = $permission;
                type Reply = $reply;
            }
        )+

        /// A daemon's answers: a handler for each call. A refused permission never reaches a handler.
        pub trait Service {
            /// The user that makes a call, and the connection over which it is made.
            type Caller: Authority;
            $(
                $(#[doc = $doc])+
                ///
                /// # Errors
                /// The refusal, as the client receives it.
                fn $method(&mut self, caller: &Self::Caller, request: $request) -> Result<$reply, Refusal>;
            )+
        }

        /// Checks the permission of a request, has it handled by `service`, and returns the reply as JSON.
        ///
        /// # Errors
        /// The refusal: an unknown call, parameters that do not fit, a missing permission, or that of the handler.
        pub fn answer<S: Service>(service: &mut S, caller: &S::Caller, request: &Request) -> Result<Value, Refusal> {
            match request.call.as_str() {
                $(
                    $name => {
                        let parameters = request.parameters::<$request>()?;
                        <$request>::PERMISSION.check(caller)?;
                        let reply = service.$method(caller, parameters)?;
                        serde_json::to_value(reply).map_err(|error| Refusal::new(Code::Failed, error.to_string()))
                    }
                )+
                other => {
                    let names: Vec<&str> = CALLS.iter().map(|call| call.name).collect();
                    Err(Refusal::new(Code::UnknownCall, format!("there is no call `{other}`"))
                        .help(format!("there are {}", names.join(", "))))
                }
            }
        }

        /// Every call, in the order of the documentation.
        pub const CALLS: &[Declaration] = &[
            $(
                Declaration {
                    name: $name,
                    documentation: concat!($($doc, "\n"),+),
                    permission: $permission,
                    request_type: stringify!($request),
                    reply_type: stringify!($reply),
                    request: $request_example,
                    reply: $reply_example,
                    read_request: reread::<$request>,
                    read_reply: reread::<$reply>,
                },
            )+
        ];

        /// A method for each call.
        impl crate::Client {
            $(
                calls!(@method $parameters $(=> $field: $type)?, $method $request $reply, $(#[doc = $doc])+);
            )+
        }

        /// Methods that are declared to be written by hand exist.
        const _: fn() = || {
            $( let _ = crate::Client::$method; )+
        };
    };

    (@method custom, $method:ident $request:ident $reply:ident, $(#[doc = $doc:literal])+) => {};
    (@method () $(=> $field:ident: $type:ty)?, $method:ident $request:ident $reply:ident, $(#[doc = $doc:literal])+) => {
        calls!(@define [] [&$request::default()] $(=> $field: $type)?, $method $reply, $(#[doc = $doc])+);
    };
    (
        @method (request) $(=> $field:ident: $type:ty)?, $method:ident $request:ident $reply:ident,
        $(#[doc = $doc:literal])+
    ) => {
        calls!(@define [request: &$request] [request] $(=> $field: $type)?, $method $reply, $(#[doc = $doc])+);
    };
    (
        @method { $($parameter:ident: $of:ty),+ } $(=> $field:ident: $type:ty)?,
        $method:ident $request:ident $reply:ident, $(#[doc = $doc:literal])+
    ) => {
        calls!(
            @define [$($parameter: $of),+] [&$request { $($parameter),+ }] $(=> $field: $type)?,
            $method $reply, $(#[doc = $doc])+
        );
    };
    (
        @define [$($parameters:tt)*] [$($value:tt)+] => $field:ident: $type:ty,
        $method:ident $reply:ident, $(#[doc = $doc:literal])+
    ) => {
        $(#[doc = $doc])+
        ///
        /// # Errors
        /// See [`ClientError`](crate::ClientError).
        pub fn $method(&mut self, $($parameters)*) -> Result<$type, crate::ClientError> {
            Ok(self.call($($value)+)?.$field)
        }
    };
    (
        @define [$($parameters:tt)*] [$($value:tt)+],
        $method:ident $reply:ident, $(#[doc = $doc:literal])+
    ) => {
        $(#[doc = $doc])+
        ///
        /// # Errors
        /// See [`ClientError`](crate::ClientError).
        pub fn $method(&mut self, $($parameters)*) -> Result<$reply, crate::ClientError> {
            self.call($($value)+)
        }
    };
}

pub(crate) use calls;
