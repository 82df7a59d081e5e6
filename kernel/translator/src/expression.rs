//! Expressions.

use std::mem;

use syn::{BinOp, Expr, Lit, Member, UnOp};

use super::body::{Body, Value};
use super::problem::{Problem, Result};
use super::source::{Definition, Key};
use super::types::{self, Ty, has_fields, integer, local, prefix, variant};

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
                    _ => self.outside(cast, Problem::Conversion),
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
                    return self.outside(attempt, Problem::NotOption);
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
            Expr::While(_) | Expr::Loop(_) => self.outside(expression, Problem::Endless),
            Expr::Break(_) | Expr::Continue(_) => self.outside(expression, Problem::Label),
            Expr::Closure(_) => self.outside(expression, Problem::Closure),
            Expr::Tuple(_) => self.outside(expression, Problem::Tuple),
            Expr::Index(element) => self.element(element),
            Expr::Array(_) | Expr::Repeat(_) => self.outside(expression, Problem::Array),
            Expr::Macro(_) => self.outside(expression, Problem::Macro),
            _ => self.outside(expression, Problem::Expression),
        }
    }

    pub(super) fn read(&mut self, ty: &syn::Type) -> Result<Ty> {
        let of = self.of.clone();
        let translator = &mut *self.translator;
        translator.types.read(translator.sources, self.file, of.as_ref(), ty)
    }
    fn none(&self, option: &Ty) -> String {
        format!("({}){{0}}", self.translator.types.c(option))
    }

    /// Several expressions in order: what a later one does changes no earlier one.
    pub(super) fn operands(&mut self, list: &[(&Expr, Option<Ty>)]) -> Result<Vec<Value>> {
        self.operands_and_place(list, false)
    }
    /// Like [`operands`](Self::operands), but the first may be a place to which a reference is taken. It is not copied; Rust
    /// lets nothing that is evaluated later change it.
    pub(super) fn operands_and_place(
        &mut self,
        list: &[(&Expr, Option<Ty>)],
        first_is_place: bool,
    ) -> Result<Vec<Value>> {
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
            let is_copied = later && by_value && !value.fixed && !(at == 0 && first_is_place);
            values.push(if is_copied { self.spill(&value) } else { value });
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
                        return self.outside(at, Problem::NumberType);
                    }
                };
                let suffix = match &ty {
                    Ty::Int("u64" | "usize") => "ull",
                    Ty::Int("i64") => "ll",
                    Ty::Int("u32") => "u",
                    _ => "",
                };
                let c = format!("{}{suffix}", value.base10_digits());
                Ok(Value::fixed(if ty == Ty::Int("u128") { format!("((u128){c}ull)") } else { c }, ty))
            }
            _ => self.outside(at, Problem::Literal),
        }
    }

    fn path(&mut self, path: &syn::ExprPath, want: Option<&Ty>) -> Result<Value> {
        let segments: Vec<String> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let sources = self.translator.sources;
        match segments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["None"] => match want {
                Some(option @ Ty::Option(_)) => Ok(Value::fixed(self.none(option), option.clone())),
                _ => self.outside(path, Problem::NoneType),
            },
            [name] => {
                if let Some(value) = self.variable(name) {
                    return Ok(value.clone());
                }
                let module = sources.module_of(self.file, name);
                self.constant(path, Key { module, of: None, name: name.into(), right: None })
            }
            [of, "BITS"] if let Some(Ty::Int(name)) = integer(of) => {
                let bits = if name == "usize" { "64" } else { &name[1..] };
                Ok(Value::fixed(format!("{bits}u"), Ty::Int("u32")))
            }
            [of, "MAX"] if let Some(ty @ Ty::Int(_)) = integer(of) => {
                Ok(Value::fixed(format!("{}_MAX", self.translator.types.c(&ty).to_uppercase()), ty))
            }
            [of, name] => {
                let named = if of == "Self" { self.of.clone() } else { sources.resolve(self.file, of) };
                let Some(named) = named else { return self.outside(path, Problem::UnknownType) };
                if let Definition::Enum(item) = &sources.types[&named].1
                    && item.variants.iter().any(|variant| variant.ident == name)
                {
                    let ty = self.read(&syn::parse_quote!(Self)).ok().filter(|ty| *ty == Ty::Named(named.clone()));
                    let of: syn::Type = syn::parse_str(of).map_err(|_| self.error(path, Problem::UnknownName, ""))?;
                    let ty = ty.map_or_else(|| self.read(&of), Ok)?;
                    let c = variant(&named, name);
                    let c = if has_fields(item) { format!("({}){{ .kind = {c} }}", prefix(&named)) } else { c };
                    return Ok(Value::fixed(c, ty));
                }
                let (module, of) = named;
                self.constant(path, Key { module, of: Some(of), name: name.into(), right: None })
            }
            _ => self.outside(path, Problem::LongPath),
        }
    }
    fn constant(&mut self, at: &syn::ExprPath, key: Key) -> Result<Value> {
        match self.translator.constant(&key)? {
            Some(signature) => Ok(Value::fixed(format!("{}()", signature.c), signature.returns)),
            None => self.outside(at, Problem::UnknownName),
        }
    }

    /// An element of a constant table.
    fn element(&mut self, element: &syn::ExprIndex) -> Result<Value> {
        let Expr::Path(path) = &*element.expr else { return self.outside(element, Problem::Array) };
        let Some(name) = path.path.get_ident().map(ToString::to_string) else {
            return self.outside(element, Problem::Array);
        };
        let module = self.translator.sources.module_of(self.file, &name);
        let key = Key { module, of: None, name, right: None };
        let Some(table) = self.translator.table(&key)? else { return self.outside(element, Problem::Array) };
        let place = Ty::Int("usize");
        let at = self.expression(&element.index, Some(&place))?;
        self.expect(&element.index, &at, &place)?;
        let c = format!("{}[twin_index({}, {})]", table.c, at.c, table.count);
        Ok(Value { c, ty: table.of, fixed: at.fixed })
    }

    fn field(&mut self, field: &syn::ExprField) -> Result<Value> {
        let base = self.expression(&field.base, None)?;
        let name = match &field.member {
            Member::Named(name) => name.to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        };
        let Ty::Named(of) = base.ty.target().clone() else {
            return Err(self.error(field, Problem::Field, &base.ty.to_string()));
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
            None => Err(self.error(field, Problem::Field, &base.ty.to_string())),
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
            _ => self.outside(unary, Problem::Operator),
        }
    }

    fn binary(&mut self, binary: &syn::ExprBinary, want: Option<&Ty>) -> Result<Value> {
        if let BinOp::And(_) | BinOp::Or(_) = binary.op {
            return self.short_circuit(binary);
        }
        let Some((symbol, compares, assigns)) = symbol(&binary.op) else {
            return self.outside(binary, Problem::Operator);
        };
        let shifts = matches!(symbol, "<<" | ">>");
        let known = if compares { None } else { want };
        let (left, right) = self.sides(binary, known, shifts, assigns)?;
        if let (Ty::Named(name), Some(method)) = (&left.ty, operator(&binary.op)) {
            let Ty::Named(to) = &right.ty else {
                return self.outside(binary, Problem::MixedOperands);
            };
            let key = Key {
                module: name.0.clone(),
                of: Some(name.1.clone()),
                name: method.into(),
                right: Some(to.1.clone()),
            };
            let Some(signature) = self.translator.function(&key)? else {
                return Err(self.error(binary, Problem::Operator, &format!("{} and {}", name.1, to.1)));
            };
            let left = if assigns { format!("&{}", left.c) } else { left.c };
            return Ok(self.invoke(&signature, &[left, right.c]));
        }
        let (left, right) = (self.plain(&left)?, self.plain(&right)?);
        if left.ty != right.ty && !shifts {
            return Err(self.error(binary, Problem::MixedOperands, &format!("{} and {}", left.ty, right.ty)));
        }
        let fixed = left.fixed && right.fixed;
        if compares {
            return Ok(Value { c: format!("({} {symbol} {})", left.c, right.c), ty: Ty::Bool, fixed });
        }
        if left.ty == Ty::Int("u128") && matches!(symbol, "*" | "/" | "%") {
            return self.outside(binary, Problem::WideProduct);
        }
        if left.ty.is_signed() && matches!(symbol, "/" | "%" | "<<") {
            return self.outside(binary, Problem::SignedDivision);
        }
        let c = match (&left.ty, symbol) {
            (Ty::Bool, "&" | "|" | "^") => format!("({} {symbol} {})", left.c, right.c),
            // Signed overflow is undefined in C.
            (Ty::Int("i64"), "+") => format!("add_s64({}, {})", left.c, right.c),
            (Ty::Int("i64"), "-") => format!("sub_s64({}, {})", left.c, right.c),
            (Ty::Int("i64"), "*") => format!("mul_s64({}, {})", left.c, right.c),
            (Ty::Int(_), _) => {
                format!("(({})({} {symbol} {}))", self.translator.types.c(&left.ty), left.c, right.c)
            }
            _ => return Err(self.error(binary, Problem::Operator, &left.ty.to_string())),
        };
        if assigns {
            self.line(&format!("{} = {c};", left.c));
            return Ok(Value::unit());
        }
        Ok(Value { c, ty: left.ty, fixed })
    }

    /// Both sides of a binary operation. `known` is the type that the result must have, where that tells the type of the sides.
    fn sides(
        &mut self,
        binary: &syn::ExprBinary,
        known: Option<&Ty>,
        shifts: bool,
        assigns: bool,
    ) -> Result<(Value, Value)> {
        // A number without a type has that of the other side.
        let is_number = |side: &Expr| matches!(side, Expr::Lit(literal) if matches!(&literal.lit, Lit::Int(int) if int.suffix().is_empty()));
        if shifts {
            let count = Some(Ty::Int("u32"));
            let mut list = self.operands(&[(&binary.left, known.cloned()), (&binary.right, count.clone())])?;
            let (Some(right), Some(left)) = (list.pop(), list.pop()) else {
                return self.outside(binary, Problem::Operator);
            };
            if is_number(&binary.right) {
                Ok((left, right))
            } else {
                // As many as there are bits, or more, is undefined in C.
                let most = match &left.ty {
                    // Those of signed integers to the left are refused behind this.
                    Ty::Int("u64" | "i64") if Some(&right.ty) == count.as_ref() => 63,
                    Ty::Int("u32") if Some(&right.ty) == count.as_ref() => 31,
                    Ty::Int("u128") if Some(&right.ty) == count.as_ref() => 127,
                    _ => return self.outside(binary, Problem::Shift),
                };
                Ok((left, Value { c: format!("({} & {most}u)", right.c), ..right }))
            }
        } else if is_number(&binary.left) {
            let right = self.expression(&binary.right, known)?;
            Ok((self.expression(&binary.left, Some(&right.ty))?, right))
        } else if assigns {
            // The right side is evaluated first; Rust lets it change nothing of the place on the left.
            let left_ty = self.type_of(&binary.left, known)?;
            let right = self.expression(&binary.right, Some(&left_ty))?;
            Ok((self.expression(&binary.left, known)?, right))
        } else {
            let left_ty = self.type_of(&binary.left, known)?;
            let mut list = self.operands(&[(&binary.left, known.cloned()), (&binary.right, Some(left_ty))])?;
            let right = list.pop();
            match (list.pop(), right) {
                (Some(left), Some(right)) => Ok((left, right)),
                _ => self.outside(binary, Problem::Operator),
            }
        }
    }

    /// The integer in a newtype, or the value itself.
    pub(super) fn plain(&mut self, value: &Value) -> Result<Value> {
        let Ty::Named(name) = &value.ty else { return Ok(value.clone()) };
        let translator = &mut *self.translator;
        let inner = types::inner(translator.sources, &mut translator.types, name)?;
        let is_plain = matches!(&translator.sources.types[name].1, Definition::Enum(item) if !has_fields(item));
        Ok(match inner {
            Some(ty) => Value { ty, ..value.clone() },
            None if is_plain => Value { ty: Ty::Int("u32"), ..value.clone() },
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
        let segments: Vec<String> = literal.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if let [of, name] = &segments[..]
            && let Some(named) = self.enum_of(of, name)
        {
            return self.variant_with_names(literal, &named, name);
        }
        let ty = self.read(&syn::Type::Path(syn::TypePath { qself: None, path: literal.path.clone() }))?;
        let (Ty::Named(name), None) = (&ty, &literal.rest) else {
            return self.outside(literal, Problem::StructRest);
        };
        let mut list = Vec::new();
        for part in &literal.fields {
            let Member::Named(field) = &part.member else {
                return self.outside(part, Problem::UnnamedFields);
            };
            let translator = &mut *self.translator;
            let found = types::field(translator.sources, &mut translator.types, name, &field.to_string())?;
            list.push((&part.expr, found));
        }
        let values = self.operands(&list)?;
        let mut parts = Vec::new();
        for (part, (value, (_, want))) in literal.fields.iter().zip(values.iter().zip(&list)) {
            let (Member::Named(field), Some(want)) = (&part.member, want) else {
                return self.outside(part, Problem::Field);
            };
            self.expect(part, value, want)?;
            parts.push(format!(".{} = {}", local(&field.to_string()), value.c));
        }
        Ok(Value::new(format!("({}){{ {} }}", self.translator.types.c(&ty), parts.join(", ")), ty))
    }
}
