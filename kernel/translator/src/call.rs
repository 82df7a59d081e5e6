//! Calls: of functions, methods, variants of enums, and methods of integers.

use syn::{Expr, ExprCall, ExprMethodCall};

use super::body::{Body, Value};
use super::problem::{Problem, Result};
use super::source::{Definition, Key, Name, WIDE};
use super::translate::Signature;
use super::types::{self, Ty, default_is_zero, integer, payload, prefix, variant};

/// Methods of integers that `kernel/integers.h` has, with the types for which it has them.
const METHODS: [(&str, &[&str]); 16] = [
    ("rotate_left", &["u64"]),
    ("rotate_right", &["u64"]),
    ("leading_zeros", &["u64"]),
    ("unsigned_abs", &["i64"]),
    ("saturating_add", &["u32", "u64", "i64"]),
    ("saturating_sub", &["u32", "u64", "u128", "i64"]),
    ("saturating_mul", &["u64"]),
    ("wrapping_add", &["u32", "u64"]),
    ("wrapping_sub", &["u32", "u64"]),
    ("wrapping_mul", &["u32", "u64"]),
    ("abs_diff", &["u64"]),
    ("div_ceil", &["u64"]),
    ("isqrt", &["u64"]),
    ("min", &["u32", "u64", "u128", "i64"]),
    ("max", &["u32", "u64", "u128", "i64"]),
    ("clamp", &["u32", "u64", "i64"]),
];

impl Body<'_, '_> {
    pub(super) fn call(&mut self, call: &ExprCall, want: Option<&Ty>) -> Result<Value> {
        let Expr::Path(path) = &*call.func else { return self.outside(call, Problem::Call) };
        let segments: Vec<String> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let sources = self.translator.sources;
        let arguments: Vec<&Expr> = call.args.iter().collect();
        match (segments.iter().map(String::as_str).collect::<Vec<_>>()[..].as_ref(), arguments.as_slice()) {
            (["Some"], [inner]) => self.some(call, inner, want),
            (["select_unpredictable"], [condition, yes, no]) => {
                let mut list = self.operands(&[(condition, Some(Ty::Bool)), (yes, want.cloned())])?;
                let (Some(yes), Some(condition)) = (list.pop(), list.pop()) else {
                    return self.outside(call, Problem::Call);
                };
                let no = self.expression(no, Some(&yes.ty))?;
                self.expect(call, &no, &yes.ty)?;
                Ok(Value::new(format!("({} ? {} : {})", condition.c, yes.c, no.c), yes.ty))
            }
            ([name, "from"], [inner]) if let Some(ty) = integer(name) => {
                let value = self.expression(inner, None)?;
                let c = format!("(({}){})", self.translator.types.c(&ty), value.c);
                if !matches!(value.ty, Ty::Int(_) | Ty::Bool) {
                    return self.outside(call, Problem::Conversion);
                }
                Ok(Value { c, ty, fixed: value.fixed })
            }
            ([name], [inner]) if sources.resolve(self.file, name).is_some() || *name == "Self" => {
                let ty = self.read(&syn::parse_str(name).map_err(|_| self.error(call, Problem::UnknownType, ""))?)?;
                let Ty::Named(named) = &ty else { return self.outside(call, Problem::Call) };
                let translator = &mut *self.translator;
                let Some(wanted) = types::inner(translator.sources, &mut translator.types, named)? else {
                    return self.outside(call, Problem::UnnamedFields);
                };
                let value = self.expression(inner, Some(&wanted))?;
                self.expect(call, &value, &wanted)?;
                Ok(Value { ty, ..value })
            }
            ([name, "default"], []) => {
                let ty = self.read(&syn::parse_str(name).map_err(|_| self.error(call, Problem::UnknownType, ""))?)?;
                match &ty {
                    Ty::Named(named) if default_is_zero(sources, named) => {
                        Ok(Value::fixed(format!("({}){{0}}", self.translator.types.c(&ty)), ty))
                    }
                    _ => self.outside(call, Problem::DefaultValue),
                }
            }
            ([name], _) if sources.module_of(self.file, name) == WIDE => {
                let list: Vec<_> = arguments.iter().map(|argument| (*argument, Some(Ty::Int("u64")))).collect();
                let values = self.operands(&list)?;
                for (argument, value) in arguments.iter().zip(&values) {
                    self.expect(argument, value, &Ty::Int("u64"))?;
                }
                let c: Vec<&str> = values.iter().map(|value| value.c.as_str()).collect();
                let fixed = values.iter().all(|value| value.fixed);
                Ok(Value { c: format!("{name}_u64({})", c.join(", ")), ty: Ty::Int("u64"), fixed })
            }
            ([of, name], [inner]) if let Some(named) = self.enum_of(of, name) => {
                self.variant_of(call, &named, (of, name), inner)
            }
            ([name], _) => {
                let module = sources.module_of(self.file, name);
                let key = Key { module, of: None, name: (*name).to_owned(), right: None };
                self.apply(call, &key, None, &arguments)
            }
            ([of, name], _) => {
                let named = if *of == "Self" { self.of.clone() } else { sources.resolve(self.file, of) };
                let Some((module, of)) = named else {
                    return self.outside(call, Problem::UnknownType);
                };
                let key = Key { module, of: Some(of), name: (*name).to_owned(), right: None };
                self.apply(call, &key, None, &arguments)
            }
            _ => self.outside(call, Problem::LongPath),
        }
    }

    /// `Some(inner)`, where an option of that type is wanted.
    fn some(&mut self, call: &ExprCall, inner: &Expr, want: Option<&Ty>) -> Result<Value> {
        let wanted = if let Some(Ty::Option(ty)) = want { Some((**ty).clone()) } else { None };
        let value = self.expression(inner, wanted.as_ref())?;
        let ty = Ty::Option(Box::new(value.ty.clone()));
        if want != Some(&ty) {
            return self.outside(call, Problem::NoneType);
        }
        let c = self.translator.types.c(&ty);
        Ok(Value { c: format!("({c}){{ .some = true, .value = {} }}", value.c), ty, fixed: value.fixed })
    }

    /// A variant with a payload of the enum `named`, which the source calls `of`.
    fn variant_of(&mut self, call: &ExprCall, named: &Name, (of, name): (&str, &str), inner: &Expr) -> Result<Value> {
        let sources = self.translator.sources;
        let Definition::Enum(item) = &sources.types[named].1 else {
            return self.outside(call, Problem::Call);
        };
        let Some(found) = item.variants.iter().find(|variant| variant.ident == name) else {
            return self.outside(call, Problem::Call);
        };
        let fields = payload(found);
        let [(member, _, ty)] = fields.as_slice() else {
            return self.outside(call, Problem::UnnamedFields);
        };
        let translator = &mut *self.translator;
        let wanted = translator.types.read(sources, sources.types[named].0, Some(named), ty)?;
        let whole = self.read(&syn::parse_str(of).map_err(|_| self.error(call, Problem::UnknownType, ""))?)?;
        let value = self.expression(inner, Some(&wanted))?;
        self.expect(call, &value, &wanted)?;
        let kind = variant(named, name);
        let c = format!("({}){{ .kind = {kind}, .{member} = {} }}", prefix(named), value.c);
        Ok(Value { c, ty: whole, fixed: value.fixed })
    }

    /// A variant with named fields.
    pub(super) fn variant_with_names(&mut self, literal: &syn::ExprStruct, named: &Name, name: &str) -> Result<Value> {
        let sources = self.translator.sources;
        let (file, Definition::Enum(item)) = &sources.types[named] else {
            return self.outside(literal, Problem::UnknownType);
        };
        let fields = item.variants.iter().find(|variant| variant.ident == name).map(payload).unwrap_or_default();
        let (mut list, mut members) = (Vec::new(), Vec::new());
        for part in &literal.fields {
            let syn::Member::Named(field) = &part.member else { return self.outside(part, Problem::UnnamedFields) };
            let Some((member, _, ty)) = fields.iter().find(|(_, rust, _)| field == rust) else {
                return self.outside(part, Problem::Field);
            };
            list.push((&part.expr, Some(self.translator.types.read(sources, *file, Some(named), ty)?)));
            members.push(member);
        }
        let values = self.operands(&list)?;
        let mut c = format!("({}){{ .kind = {}", prefix(named), variant(named, name));
        for ((value, (at, wanted)), member) in values.iter().zip(&list).zip(members) {
            self.expect(at, value, wanted.as_ref().unwrap_or(&Ty::Unit))?;
            c += &format!(", .{member} = {}", value.c);
        }
        Ok(Value::new(c + " }", Ty::Named(named.clone())))
    }

    /// The enum of which `name` is a variant.
    pub(super) fn enum_of(&self, of: &str, name: &str) -> Option<Name> {
        let sources = self.translator.sources;
        let named = if of == "Self" { self.of.clone() } else { sources.resolve(self.file, of) }?;
        let Definition::Enum(item) = &sources.types[&named].1 else { return None };
        item.variants.iter().any(|variant| variant.ident == name).then_some(named)
    }

    pub(super) fn method(&mut self, call: &ExprMethodCall, want: Option<&Ty>) -> Result<Value> {
        let name = call.method.to_string();
        let arguments: Vec<&Expr> = call.args.iter().collect();
        let ty = self.type_of(&call.receiver, want)?;
        match ty.target() {
            Ty::Option(_) if matches!(name.as_str(), "is_some" | "is_none") => {
                let value = self.expression(&call.receiver, None)?;
                let not = if name == "is_none" { "!" } else { "" };
                Ok(Value { c: format!("({not}{}.some)", value.c), ty: Ty::Bool, ..value })
            }
            Ty::Named(named) => {
                let key = Key { module: named.0.clone(), of: Some(named.1.clone()), name: name.clone(), right: None };
                if self.translator.sources.functions.contains_key(&key) {
                    return self.apply(call, &key, Some(&call.receiver), &arguments);
                }
                // What `Ord` gives a newtype.
                if matches!(name.as_str(), "min" | "max") && !matches!(ty, Ty::Ref { .. }) {
                    return self.intrinsic(call, &name, &ty, want);
                }
                Err(self.error(call, Problem::UnknownMethod, &format!("`{name}` of {}", named.1)))
            }
            Ty::Int(_) => self.intrinsic(call, &name, &ty, want),
            _ => Err(self.error(call, Problem::UnknownMethod, &format!("`{name}` of {ty}"))),
        }
    }

    /// A method of integers.
    fn intrinsic(&mut self, call: &ExprMethodCall, name: &str, ty: &Ty, want: Option<&Ty>) -> Result<Value> {
        // Those whose argument or result is of another type.
        let argument = if name.starts_with("rotate_") { Ty::Int("u32") } else { ty.clone() };
        let result = match name {
            "leading_zeros" => Ty::Int("u32"),
            "unsigned_abs" => Ty::Int("u64"),
            _ => ty.clone(),
        };
        let mut list = vec![(&*call.receiver, want.cloned().filter(|want| want == ty))];
        list.extend(call.args.iter().map(|each| (each, Some(argument.clone()))));
        let mut values = self.operands(&list)?;
        for (at, value) in values.iter().enumerate() {
            self.expect(call, value, if at == 0 { ty } else { &argument })?;
        }
        for value in &mut values {
            *value = self.plain(value)?;
        }
        let fixed = values.iter().all(|value| value.fixed);
        let plain = values[0].ty.clone();
        let Ty::Int(rust) = plain else { return self.outside(call, Problem::UnknownMethod) };
        if !METHODS.iter().any(|(method, types)| *method == name && types.contains(&rust)) {
            return Err(self.error(call, Problem::UnknownMethod, &format!("`{name}` of {rust}")));
        }
        let suffix = self.translator.types.c(&plain);
        let c: Vec<&str> = values.iter().map(|value| value.c.as_str()).collect();
        Ok(Value { c: format!("{name}_{suffix}({})", c.join(", ")), ty: result, fixed })
    }

    /// A call of a function that is translated.
    fn apply(
        &mut self,
        at: &impl syn::spanned::Spanned,
        key: &Key,
        receiver: Option<&Expr>,
        arguments: &[&Expr],
    ) -> Result<Value> {
        let found = self.translator.function(key);
        let found = found.map_err(|inner| match inner.problem {
            // Of what others wrote, the place of the call matters.
            Some(_) if inner.path != self.translator.sources.files[self.file].path => {
                self.error(at, Problem::UnknownFunction, &inner.text)
            }
            _ => inner,
        });
        let Some(signature) = found? else {
            return Err(self.error(at, Problem::UnknownFunction, &key.name));
        };
        let all: Vec<&Expr> = receiver.into_iter().chain(arguments.iter().copied()).collect();
        if all.len() != signature.parameters.len() {
            return self.outside(at, Problem::Arguments);
        }
        let wanted = all.iter().zip(&signature.parameters);
        let list: Vec<_> = wanted.map(|(expression, ty)| (*expression, Some(ty.target().clone()))).collect();
        let by_reference = receiver.is_some() && matches!(signature.parameters.first(), Some(Ty::Ref { .. }));
        let values = self.operands_and_place(&list, by_reference)?;
        let mut c = Vec::new();
        for (number, (value, ty)) in values.iter().zip(&signature.parameters).enumerate() {
            // Rust takes the reference, or follows it, for the receiver.
            let is_receiver = number == 0 && receiver.is_some();
            c.push(match (&value.ty, ty) {
                (Ty::Ref { to: given, .. }, Ty::Ref { to: wanted, .. }) if given == wanted => value.c.clone(),
                (given, Ty::Ref { to, .. }) if is_receiver && given == &**to && value.c.ends_with(')') => {
                    format!("&{}", self.spill(value).c)
                }
                (given, Ty::Ref { to, .. }) if is_receiver && given == &**to => format!("&{}", value.c),
                (Ty::Ref { to, .. }, wanted) if is_receiver && &**to == wanted => format!("*{}", value.c),
                (given, wanted) if given == wanted => value.c.clone(),
                (given, wanted) => {
                    return Err(self.error(at, Problem::Arguments, &format!("{given} in place of {wanted}")));
                }
            });
        }
        Ok(self.invoke(&signature, &c))
    }

    /// Calls a function of C now: the result is a variable.
    pub(super) fn invoke(&mut self, signature: &Signature, arguments: &[String]) -> Value {
        let c = format!("{}({})", signature.c, arguments.join(", "));
        if signature.returns == Ty::Unit {
            self.line(&format!("{c};"));
            return Value::unit();
        }
        self.spill(&Value::new(c, signature.returns.clone()))
    }
}
