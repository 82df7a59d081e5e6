//! Expressions.

use std::mem;

use syn::{BinOp, Expr, ExprCall, ExprMethodCall, Lit, Member, UnOp};

use super::body::{Body, Value};
use super::source::{Key, Result};
use super::translate::Signature;
use super::types::{self, Ty, default_is_zero, integer, local, variant};

/// Methods of integers that `twin/integers.h` has, with the types for which it has them.
const METHODS: [(&str, &[&str]); 12] = [
    ("saturating_add", &["u32", "u64"]),
    ("saturating_sub", &["u32", "u64", "i64"]),
    ("saturating_mul", &["u64"]),
    ("wrapping_add", &["u32", "u64"]),
    ("wrapping_sub", &["u32", "u64"]),
    ("wrapping_mul", &["u32", "u64"]),
    ("abs_diff", &["u64"]),
    ("div_ceil", &["u64"]),
    ("isqrt", &["u64"]),
    ("min", &["u32", "u64", "i64"]),
    ("max", &["u32", "u64", "i64"]),
    ("clamp", &["u32", "u64", "i64"]),
];

/// Operators of types with their traits' methods.
fn operator(op: &BinOp) -> Option<&'static str> {
    Some(match op {
        BinOp::Add(_) => "add",
        BinOp::Sub(_) => "sub",
        BinOp::AddAssign(_) => "add_assign",
        BinOp::SubAssign(_) => "sub_assign",
        _ => return None,
    })
}

/// An operator of C, whether it compares, and whether it assigns.
fn symbol(op: &BinOp) -> Option<(&'static str, bool, bool)> {
    Some(match op {
        BinOp::Add(_) => ("+", false, false),
        BinOp::Sub(_) => ("-", false, false),
        BinOp::Mul(_) => ("*", false, false),
        BinOp::Div(_) => ("/", false, false),
        BinOp::Rem(_) => ("%", false, false),
        BinOp::BitAnd(_) => ("&", false, false),
        BinOp::BitOr(_) => ("|", false, false),
        BinOp::BitXor(_) => ("^", false, false),
        BinOp::Shl(_) => ("<<", false, false),
        BinOp::Shr(_) => (">>", false, false),
        BinOp::AddAssign(_) => ("+", false, true),
        BinOp::SubAssign(_) => ("-", false, true),
        BinOp::MulAssign(_) => ("*", false, true),
        BinOp::DivAssign(_) => ("/", false, true),
        BinOp::BitAndAssign(_) => ("&", false, true),
        BinOp::BitOrAssign(_) => ("|", false, true),
        BinOp::ShlAssign(_) => ("<<", false, true),
        BinOp::ShrAssign(_) => (">>", false, true),
        BinOp::Eq(_) => ("==", true, false),
        BinOp::Ne(_) => ("!=", true, false),
        BinOp::Lt(_) => ("<", true, false),
        BinOp::Le(_) => ("<=", true, false),
        BinOp::Gt(_) => (">", true, false),
        BinOp::Ge(_) => (">=", true, false),
        _ => return None,
    })
}

impl Body<'_, '_> {
    /// An expression, as type `want` where its own does not show in it.
    pub fn expression(&mut self, expression: &Expr, want: Option<&Ty>) -> Result<Value> {
        match expression {
            Expr::Lit(literal) => self.literal(expression, &literal.lit, want),
            Expr::Paren(inner) => self.expression(&inner.expr, want),
            Expr::Path(path) => self.path(path, want),
            Expr::Field(field) => self.field(field),
            Expr::Unary(unary) => self.unary(unary, want),
            Expr::Binary(binary) => self.binary(binary, want),
            Expr::Cast(cast) => {
                let value = self.expression(&cast.expr, None)?;
                let ty = self.read(&cast.ty)?;
                match (&value.ty, &ty) {
                    (Ty::Int(_) | Ty::Bool, Ty::Int(_)) => {
                        let c = format!("(({}){})", self.translator.types.c(&ty), value.c);
                        Ok(Value { c, ty, ..value })
                    }
                    _ => self.outside(cast, "a conversion between other types than integers"),
                }
            }
            Expr::Assign(assign) => {
                let to = self.expression(&assign.left, None)?;
                let value = self.expression(&assign.right, Some(&to.ty))?;
                self.expect(&assign.right, &value, &to.ty)?;
                self.line(&format!("{} = {};", to.c, value.c));
                Ok(Value::unit())
            }
            Expr::Reference(reference) => {
                let value = self.expression(&reference.expr, None)?;
                let mutable = reference.mutability.is_some();
                Ok(Value::fixed(format!("&{}", value.c), Ty::Ref { to: Box::new(value.ty), mutable }))
            }
            Expr::Block(block) if block.label.is_none() => self.block(&block.block, want),
            Expr::If(conditional) => self.conditional(conditional, want),
            Expr::Match(choice) => self.choice(choice, want),
            Expr::ForLoop(repetition) => self.repetition(repetition),
            Expr::Break(end) if end.label.is_none() && end.expr.is_none() => {
                self.line("break;");
                Ok(Value::never())
            }
            Expr::Continue(next) if next.label.is_none() => {
                self.line("continue;");
                Ok(Value::never())
            }
            Expr::Return(end) => {
                let returns = self.returns.clone();
                match &end.expr {
                    Some(value) => {
                        let c = self.expression(value, Some(&returns))?;
                        self.expect(value, &c, &returns)?;
                        self.line(&format!("return {};", c.c));
                    }
                    None => self.line("return;"),
                }
                Ok(Value::never())
            }
            Expr::Try(attempt) => {
                let (option, returns) = (self.expression(&attempt.expr, None)?, self.returns.clone());
                let (Ty::Option(inner), Ty::Option(_)) = (&option.ty, &returns) else {
                    return self.outside(attempt, "`?` on what is no option");
                };
                let (inner, option) = ((**inner).clone(), self.spill(&option));
                let none = self.none(&returns);
                self.line(&format!("if (!{}.some)", option.c));
                self.line(&format!("\treturn {none};"));
                Ok(Value::fixed(format!("{}.value", option.c), inner))
            }
            Expr::Struct(literal) => self.structure(literal),
            Expr::Call(call) => self.call(call, want),
            Expr::MethodCall(call) => self.method(call, want),
            _ => self.outside(expression, "an expression of a kind that C has not, or that is not translated yet"),
        }
    }

    fn read(&mut self, ty: &syn::Type) -> Result<Ty> {
        let of = self.of.clone();
        let translator = &mut *self.translator;
        translator.types.read(translator.sources, self.file, of.as_ref(), ty)
    }
    fn none(&self, option: &Ty) -> String {
        format!("({}){{0}}", self.translator.types.c(option))
    }

    /// Several expressions in order: what a later one does changes no earlier one.
    fn operands(&mut self, list: &[(&Expr, Option<Ty>)]) -> Result<Vec<Value>> {
        let mut parts = Vec::new();
        for (expression, want) in list {
            parts.push(self.apart(|body| body.expression(expression, want.as_ref()))?);
        }
        let mut values = Vec::new();
        for at in 0..parts.len() {
            let later = parts[at + 1..].iter().any(|(text, _)| !text.is_empty());
            let (text, value) = &mut parts[at];
            self.out += &mem::take(text);
            let value = value.clone();
            let by_value = !matches!(value.ty, Ty::Ref { .. } | Ty::Unit | Ty::Never);
            values.push(if later && by_value && !value.fixed { self.spill(&value) } else { value });
        }
        Ok(values)
    }

    fn literal(&self, at: &Expr, literal: &Lit, want: Option<&Ty>) -> Result<Value> {
        match literal {
            Lit::Bool(value) => Ok(Value::fixed(value.value.to_string(), Ty::Bool)),
            Lit::Int(value) => {
                let ty = match (integer(value.suffix()), want) {
                    (Some(ty), _) => ty,
                    (None, Some(Ty::Int(name))) => Ty::Int(name),
                    (None, _) => {
                        return self.outside(at, "a number whose type does not show; write it behind the number");
                    }
                };
                let suffix = match &ty {
                    Ty::Int("u64" | "usize") => "ull",
                    Ty::Int("i64") => "ll",
                    Ty::Int("u32") => "u",
                    _ => "",
                };
                Ok(Value::fixed(format!("{}{suffix}", value.base10_digits()), ty))
            }
            _ => self.outside(at, "a literal that is no integer"),
        }
    }

    fn path(&mut self, path: &syn::ExprPath, want: Option<&Ty>) -> Result<Value> {
        let segments: Vec<String> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let sources = self.translator.sources;
        match segments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["None"] => match want {
                Some(option @ Ty::Option(_)) => Ok(Value::fixed(self.none(option), option.clone())),
                _ => self.outside(path, "`None` whose type does not show"),
            },
            [name] => {
                if let Some(value) = self.variable(name) {
                    return Ok(value.clone());
                }
                let module = sources.module_of(self.file, name).to_owned();
                self.constant(path, Key { module, of: None, name: name.into(), right: None })
            }
            [of, "MAX"] if let Some(ty @ Ty::Int(_)) = integer(of) => {
                Ok(Value::fixed(format!("{}_MAX", self.translator.types.c(&ty).to_uppercase()), ty))
            }
            [of, name] => {
                let named = if of == "Self" { self.of.clone() } else { sources.resolve(self.file, of) };
                let Some(named) = named else { return self.outside(path, &format!("`{of}` is in no translated file")) };
                if let super::source::Definition::Enum(item) = &sources.types[&named].1
                    && item.variants.iter().any(|variant| variant.ident == name)
                {
                    let ty = self.read(&syn::parse_quote!(Self)).ok().filter(|ty| *ty == Ty::Named(named.clone()));
                    let of: syn::Type = syn::parse_str(of).map_err(|_| self.error(path, "a path"))?;
                    let ty = ty.map_or_else(|| self.read(&of), Ok)?;
                    return Ok(Value::fixed(variant(&named, name), ty));
                }
                let (module, of) = named;
                self.constant(path, Key { module, of: Some(of), name: name.into(), right: None })
            }
            _ => self.outside(path, "a path of more than two names"),
        }
    }
    fn constant(&mut self, at: &syn::ExprPath, key: Key) -> Result<Value> {
        match self.translator.constant(&key)? {
            Some(signature) => Ok(Value::fixed(format!("{}()", signature.c), signature.returns)),
            None => self.outside(at, &format!("`{}` is in no translated file", key.name)),
        }
    }

    fn field(&mut self, field: &syn::ExprField) -> Result<Value> {
        let base = self.expression(&field.base, None)?;
        let name = match &field.member {
            Member::Named(name) => name.to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        };
        let Ty::Named(of) = base.ty.target().clone() else {
            return self.outside(field, &format!("a field of {:?}", base.ty));
        };
        let is_reference = matches!(base.ty, Ty::Ref { .. });
        let translator = &mut *self.translator;
        if name == "0"
            && let Some(ty) = types::inner(translator.sources, &mut translator.types, &of)?
        {
            let c = if is_reference { format!("(*{})", base.c) } else { base.c };
            return Ok(Value { c, ty, fixed: base.fixed && !is_reference });
        }
        match types::field(translator.sources, &mut translator.types, &of, &name)? {
            Some(ty) => {
                let c = format!("{}{}{}", base.c, if is_reference { "->" } else { "." }, local(&name));
                Ok(Value { c, ty, fixed: base.fixed && !is_reference })
            }
            None => self.outside(field, &format!("no field `{name}`")),
        }
    }

    fn unary(&mut self, unary: &syn::ExprUnary, want: Option<&Ty>) -> Result<Value> {
        let value = self.expression(&unary.expr, want)?;
        match (&unary.op, &value.ty) {
            (UnOp::Deref(_), Ty::Ref { to, .. }) => Ok(Value::new(format!("(*{})", value.c), (**to).clone())),
            (UnOp::Not(_), Ty::Bool) => Ok(Value { c: format!("!{}", value.c), ..value }),
            (UnOp::Not(_), Ty::Int(_)) => {
                let c = format!("(({})~{})", self.translator.types.c(&value.ty), value.c);
                Ok(Value { c, ..value })
            }
            _ => self.outside(unary, "an operator"),
        }
    }

    fn binary(&mut self, binary: &syn::ExprBinary, want: Option<&Ty>) -> Result<Value> {
        if let BinOp::And(_) | BinOp::Or(_) = binary.op {
            return self.short_circuit(binary);
        }
        let Some((symbol, compares, assigns)) = symbol(&binary.op) else { return self.outside(binary, "an operator") };
        let shifts = matches!(symbol, "<<" | ">>");
        // A number without a type has that of the other side.
        let is_number = |side: &Expr| matches!(side, Expr::Lit(literal) if matches!(&literal.lit, Lit::Int(int) if int.suffix().is_empty()));
        let known = if compares { None } else { want };
        let (left, right) = if shifts {
            let Expr::Lit(number) = &*binary.right else { return self.outside(binary, "a shift by a variable") };
            let left = self.expression(&binary.left, known)?;
            (left, self.literal(&binary.right, &number.lit, Some(&Ty::Int("u32")))?)
        } else if is_number(&binary.left) {
            let right = self.expression(&binary.right, known)?;
            (self.expression(&binary.left, Some(&right.ty))?, right)
        } else if assigns {
            // The right side is evaluated first; Rust lets it change nothing of the place on the left.
            let left_ty = self.type_of(&binary.left, known)?;
            let right = self.expression(&binary.right, Some(&left_ty))?;
            (self.expression(&binary.left, known)?, right)
        } else {
            let left_ty = self.type_of(&binary.left, known)?;
            let mut list = self.operands(&[(&binary.left, known.cloned()), (&binary.right, Some(left_ty))])?;
            let right = list.pop();
            match (list.pop(), right) {
                (Some(left), Some(right)) => (left, right),
                _ => return self.outside(binary, "an operator"),
            }
        };
        if let (Ty::Named(name), Some(method)) = (&left.ty, operator(&binary.op)) {
            let Ty::Named(to) = &right.ty else {
                return self.outside(binary, "an operator of different kinds of types");
            };
            let key = Key {
                module: name.0.clone(),
                of: Some(name.1.clone()),
                name: method.into(),
                right: Some(to.1.clone()),
            };
            let Some(signature) = self.translator.function(&key)? else {
                return self.outside(binary, &format!("no operator `{symbol}` for {} and {}", name.1, to.1));
            };
            let left = if assigns { format!("&{}", left.c) } else { left.c };
            return Ok(self.invoke(&signature, &[left, right.c]));
        }
        let (left, right) = (self.plain(&left)?, self.plain(&right)?);
        if left.ty != right.ty && !shifts {
            return self.outside(binary, &format!("`{symbol}` with {:?} and {:?}", left.ty, right.ty));
        }
        let fixed = left.fixed && right.fixed;
        if compares {
            return Ok(Value { c: format!("({} {symbol} {})", left.c, right.c), ty: Ty::Bool, fixed });
        }
        if left.ty.is_signed() && matches!(symbol, "/" | "%" | "<<") {
            return self.outside(binary, "a division or left shift of signed integers, which BPF has not");
        }
        let c = match (&left.ty, symbol) {
            (Ty::Bool, "&" | "|" | "^") => format!("({} {symbol} {})", left.c, right.c),
            // Signed overflow is undefined in C.
            (Ty::Int("i64"), "+" | "-" | "*") => format!("((s64)((u64){} {symbol} (u64){}))", left.c, right.c),
            (Ty::Int(_), _) => {
                format!("(({})({} {symbol} {}))", self.translator.types.c(&left.ty), left.c, right.c)
            }
            _ => return self.outside(binary, &format!("`{symbol}` with {:?}", left.ty)),
        };
        if assigns {
            self.line(&format!("{} = {c};", left.c));
            return Ok(Value::unit());
        }
        Ok(Value { c, ty: left.ty, fixed })
    }

    /// A newtype as its integer; others as they are.
    fn plain(&mut self, value: &Value) -> Result<Value> {
        let Ty::Named(name) = &value.ty else { return Ok(value.clone()) };
        let translator = &mut *self.translator;
        let inner = types::inner(translator.sources, &mut translator.types, name)?;
        let is_enum = matches!(translator.sources.types[name].1, super::source::Definition::Enum(_));
        Ok(match inner {
            Some(ty) => Value { ty, ..value.clone() },
            None if is_enum => Value { ty: Ty::Int("u32"), ..value.clone() },
            None => value.clone(),
        })
    }

    fn short_circuit(&mut self, binary: &syn::ExprBinary) -> Result<Value> {
        let is_and = matches!(binary.op, BinOp::And(_));
        let left = self.expression(&binary.left, Some(&Ty::Bool))?;
        self.expect(&binary.left, &left, &Ty::Bool)?;
        let (text, right) = self.nested(|body| body.expression(&binary.right, Some(&Ty::Bool)))?;
        self.expect(&binary.right, &right, &Ty::Bool)?;
        if text.is_empty() {
            let symbol = if is_and { "&&" } else { "||" };
            return Ok(Value::new(format!("({} {symbol} {})", left.c, right.c), Ty::Bool));
        }
        let result = self.spill(&left);
        self.line(&format!("if ({}{}) {{", if is_and { "" } else { "!" }, result.c));
        self.out += &text;
        self.line(&format!("\t{} = {};", result.c, right.c));
        self.line("}");
        Ok(result)
    }

    fn structure(&mut self, literal: &syn::ExprStruct) -> Result<Value> {
        let ty = self.read(&syn::Type::Path(syn::TypePath { qself: None, path: literal.path.clone() }))?;
        let (Ty::Named(name), None) = (&ty, &literal.rest) else { return self.outside(literal, "a struct with `..`") };
        let mut list = Vec::new();
        for part in &literal.fields {
            let Member::Named(field) = &part.member else { return self.outside(part, "a field without a name") };
            let translator = &mut *self.translator;
            let found = types::field(translator.sources, &mut translator.types, name, &field.to_string())?;
            list.push((&part.expr, found));
        }
        let values = self.operands(&list)?;
        let mut parts = Vec::new();
        for (part, (value, (_, want))) in literal.fields.iter().zip(values.iter().zip(&list)) {
            let (Member::Named(field), Some(want)) = (&part.member, want) else {
                return self.outside(part, "no such field");
            };
            self.expect(part, value, want)?;
            parts.push(format!(".{} = {}", local(&field.to_string()), value.c));
        }
        Ok(Value::new(format!("({}){{ {} }}", self.translator.types.c(&ty), parts.join(", ")), ty))
    }

    fn call(&mut self, call: &ExprCall, want: Option<&Ty>) -> Result<Value> {
        let Expr::Path(path) = &*call.func else { return self.outside(call, "a call of a value") };
        let segments: Vec<String> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let sources = self.translator.sources;
        let arguments: Vec<&Expr> = call.args.iter().collect();
        match (segments.iter().map(String::as_str).collect::<Vec<_>>()[..].as_ref(), arguments.as_slice()) {
            (["Some"], [inner]) => {
                let wanted = if let Some(Ty::Option(ty)) = want { Some((**ty).clone()) } else { None };
                let value = self.expression(inner, wanted.as_ref())?;
                let ty = Ty::Option(Box::new(value.ty.clone()));
                if want != Some(&ty) {
                    return self.outside(call, "`Some` whose type does not show");
                }
                let c = self.translator.types.c(&ty);
                Ok(Value { c: format!("({c}){{ .some = true, .value = {} }}", value.c), ty, fixed: value.fixed })
            }
            (["select_unpredictable"], [condition, yes, no]) => {
                let mut list = self.operands(&[(condition, Some(Ty::Bool)), (yes, want.cloned())])?;
                let (Some(yes), Some(condition)) = (list.pop(), list.pop()) else {
                    return self.outside(call, "a call");
                };
                let no = self.expression(no, Some(&yes.ty))?;
                self.expect(call, &no, &yes.ty)?;
                Ok(Value::new(format!("({} ? {} : {})", condition.c, yes.c, no.c), yes.ty))
            }
            ([name, "from"], [inner]) if let Some(ty) = integer(name) => {
                let value = self.expression(inner, None)?;
                let c = format!("(({}){})", self.translator.types.c(&ty), value.c);
                if !matches!(value.ty, Ty::Int(_) | Ty::Bool) {
                    return self.outside(call, "a conversion of what is no integer");
                }
                Ok(Value { c, ty, fixed: value.fixed })
            }
            ([name], [inner]) if sources.resolve(self.file, name).is_some() || *name == "Self" => {
                let ty = self.read(&syn::parse_str(name).map_err(|_| self.error(call, "a call"))?)?;
                let Ty::Named(named) = &ty else { return self.outside(call, "a call") };
                let translator = &mut *self.translator;
                let Some(wanted) = types::inner(translator.sources, &mut translator.types, named)? else {
                    return self.outside(call, "a struct of several fields without names");
                };
                let value = self.expression(inner, Some(&wanted))?;
                self.expect(call, &value, &wanted)?;
                Ok(Value { ty, ..value })
            }
            ([name, "default"], []) => {
                let ty = self.read(&syn::parse_str(name).map_err(|_| self.error(call, "a call"))?)?;
                match &ty {
                    Ty::Named(named) if default_is_zero(sources, named) => {
                        Ok(Value::fixed(format!("({}){{0}}", self.translator.types.c(&ty)), ty))
                    }
                    _ => self.outside(call, "a default that is not derived, or not zero"),
                }
            }
            ([name], _) => {
                let module = sources.module_of(self.file, name).to_owned();
                let key = Key { module, of: None, name: (*name).to_owned(), right: None };
                self.apply(call, &key, None, &arguments)
            }
            ([of, name], _) => {
                let named = if *of == "Self" { self.of.clone() } else { sources.resolve(self.file, of) };
                let Some((module, of)) = named else {
                    return self.outside(call, &format!("`{of}` is in no translated file"));
                };
                let key = Key { module, of: Some(of), name: (*name).to_owned(), right: None };
                self.apply(call, &key, None, &arguments)
            }
            _ => self.outside(call, "a call of a path of more than two names"),
        }
    }

    fn method(&mut self, call: &ExprMethodCall, want: Option<&Ty>) -> Result<Value> {
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
                self.outside(call, &format!("no method `{name}` of {} in a translated file", named.1))
            }
            Ty::Int(_) => self.intrinsic(call, &name, &ty, want),
            _ => self.outside(call, &format!("method `{name}` of {ty:?}")),
        }
    }

    /// A method of integers.
    fn intrinsic(&mut self, call: &ExprMethodCall, name: &str, ty: &Ty, want: Option<&Ty>) -> Result<Value> {
        let mut list = vec![(&*call.receiver, want.cloned().filter(|want| want == ty))];
        list.extend(call.args.iter().map(|argument| (argument, Some(ty.clone()))));
        let mut values = self.operands(&list)?;
        for value in &values {
            self.expect(call, value, ty)?;
        }
        for value in &mut values {
            *value = self.plain(value)?;
        }
        let fixed = values.iter().all(|value| value.fixed);
        let plain = values[0].ty.clone();
        let Ty::Int(rust) = plain else { return self.outside(call, "a method of what is no integer") };
        if !METHODS.iter().any(|(method, types)| *method == name && types.contains(&rust)) {
            return self.outside(call, &format!("method `{name}` of {rust}, which twin/integers.h has not"));
        }
        let suffix = self.translator.types.c(&plain);
        let c: Vec<&str> = values.iter().map(|value| value.c.as_str()).collect();
        Ok(Value { c: format!("{name}_{suffix}({})", c.join(", ")), ty: ty.clone(), fixed })
    }

    /// A call of a function that is translated.
    fn apply(
        &mut self,
        at: &impl syn::spanned::Spanned,
        key: &Key,
        receiver: Option<&Expr>,
        arguments: &[&Expr],
    ) -> Result<Value> {
        let Some(signature) = self.translator.function(key)? else {
            return self.outside(at, &format!("function `{}` is in no translated file", key.name));
        };
        let all: Vec<&Expr> = receiver.into_iter().chain(arguments.iter().copied()).collect();
        if all.len() != signature.parameters.len() {
            return self.outside(at, "another number of arguments");
        }
        let wanted = all.iter().zip(&signature.parameters);
        let list: Vec<_> = wanted.map(|(expression, ty)| (*expression, Some(ty.target().clone()))).collect();
        let values = self.operands(&list)?;
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
                (given, wanted) => return self.outside(at, &format!("{given:?} where {wanted:?} stands")),
            });
        }
        Ok(self.invoke(&signature, &c))
    }

    /// Calls a function of C now: the result is a variable.
    fn invoke(&mut self, signature: &Signature, arguments: &[String]) -> Value {
        let c = format!("{}({})", signature.c, arguments.join(", "));
        if signature.returns == Ty::Unit {
            self.line(&format!("{c};"));
            return Value::unit();
        }
        self.spill(&Value::new(c, signature.returns.clone()))
    }
}
