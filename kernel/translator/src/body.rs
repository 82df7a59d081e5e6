//! Statements and control flow. Expressions are in `expression`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::mem;

use syn::spanned::Spanned;
use syn::{Block, Expr, Pat, Stmt};

use super::problem::{Outside, Problem, Result};
use super::source::{Definition, Name};
use super::translate::Translator;
use super::types::{Ty, has_fields, local, payload, variant};

/// An expression in C.
#[derive(Clone, Debug)]
pub struct Value {
    pub c: String,
    pub ty: Ty,
    /// Whether nothing that is evaluated later changes it.
    pub fixed: bool,
}

impl Value {
    pub fn new(c: impl Into<String>, ty: Ty) -> Self {
        Self { c: c.into(), ty, fixed: false }
    }
    pub fn fixed(c: impl Into<String>, ty: Ty) -> Self {
        Self { fixed: true, ..Self::new(c, ty) }
    }
    pub fn unit() -> Self {
        Self::fixed("", Ty::Unit)
    }
    pub fn never() -> Self {
        Self::fixed("", Ty::Never)
    }
}

/// An expression without the parentheses around all of it: a compiler warns of two pairs around a comparison.
fn bare(c: &str) -> &str {
    let Some(inner) = c.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else { return c };
    let mut depth = 0_i32;
    let is_whole = inner.chars().all(|letter| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        depth >= 0
    });
    if is_whole { inner } else { c }
}

/// One function while it is translated.
pub struct Body<'a, 'b> {
    pub translator: &'b mut Translator<'a>,
    pub file: usize,
    pub of: Option<Name>,
    /// Variables in scope, the innermost last, with their names in C.
    scopes: Vec<BTreeMap<String, Value>>,
    /// How often each name of C is taken.
    taken: BTreeMap<String, u32>,
    pub returns: Ty,
    pub out: String,
    depth: usize,
}

impl<'a, 'b> Body<'a, 'b> {
    pub fn new(
        translator: &'b mut Translator<'a>,
        file: usize,
        of: Option<Name>,
        parameters: Vec<(String, Ty)>,
        returns: Ty,
    ) -> Self {
        let scope = parameters.iter().map(|(name, ty)| (name.clone(), Value::fixed(local(name), ty.clone())));
        let scopes = vec![scope.collect()];
        let taken = parameters.iter().map(|(name, _)| (local(name), 1)).collect();
        Self { translator, file, of, scopes, taken, returns, out: String::new(), depth: 1 }
    }

    /// The statements of a function.
    pub fn function(mut self, block: &Block) -> Result<String> {
        let returns = self.returns.clone();
        let value = self.block(block, Some(&returns))?;
        if value.ty != Ty::Never && returns != Ty::Unit {
            self.expect(block, &value, &returns)?;
            self.line(&format!("return {};", value.c));
        }
        Ok(self.out)
    }

    pub fn outside<T>(&self, at: &impl Spanned, problem: Problem) -> Result<T> {
        Err(self.error(at, problem, ""))
    }
    pub fn error(&self, at: &impl Spanned, problem: Problem, detail: &str) -> Outside {
        self.translator.sources.outside(self.file, at, problem, detail)
    }
    /// Checks a type.
    pub fn expect(&self, at: &impl Spanned, value: &Value, ty: &Ty) -> Result<()> {
        if value.ty == *ty || value.ty == Ty::Never {
            return Ok(());
        }
        Err(self.error(at, Problem::Mismatch, &format!("{} in place of {ty}", value.ty)))
    }

    pub fn line(&mut self, text: &str) {
        for _ in 0..self.depth {
            self.out.push('\t');
        }
        self.out += text;
        self.out.push('\n');
    }
    /// Runs `write` with an output of its own, one level deeper. Returns what it wrote.
    pub fn nested<T>(&mut self, write: impl FnOnce(&mut Self) -> Result<T>) -> Result<(String, T)> {
        let outer = mem::take(&mut self.out);
        self.depth += 1;
        let result = write(self);
        self.depth -= 1;
        let text = mem::replace(&mut self.out, outer);
        Ok((text, result?))
    }
    /// Runs `write` with an output of its own at the same level.
    pub fn apart<T>(&mut self, write: impl FnOnce(&mut Self) -> Result<T>) -> Result<(String, T)> {
        self.depth -= 1;
        let result = self.nested(write);
        self.depth += 1;
        result
    }
    /// The type of an expression, of which nothing is written.
    pub fn type_of(&mut self, expression: &Expr, want: Option<&Ty>) -> Result<Ty> {
        let taken = self.taken.clone();
        let (_, value) = self.nested(|body| body.expression(expression, want))?;
        self.taken = taken;
        Ok(value.ty)
    }
    fn tabs(&self) -> String {
        "\t".repeat(self.depth)
    }

    /// A name of C that no other variable of the function has.
    fn name(&mut self, wanted: &str) -> String {
        let wanted = local(wanted);
        let count = self.taken.entry(wanted.clone()).or_insert(0);
        *count += 1;
        if *count == 1 { wanted } else { format!("{wanted}_{count}") }
    }
    /// A variable of C with `value`.
    pub fn spill(&mut self, value: &Value) -> Value {
        let (name, ty) = (self.name("t"), self.translator.types.c(&value.ty));
        self.line(&format!("{ty} {name} = {};", value.c));
        Value::fixed(name, value.ty.clone())
    }
    fn bind(&mut self, name: &str, value: &Value, changes: bool) {
        let c = self.name(name);
        let ty = self.translator.types.c(&value.ty);
        self.line(&format!("{ty} {c} = {};", value.c));
        self.declare(name, Value { c, fixed: !changes, ..value.clone() });
    }
    fn declare(&mut self, name: &str, value: Value) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), value);
        }
    }
    pub fn variable(&self, name: &str) -> Option<&Value> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    /// The statements of a block, and its value.
    pub fn block(&mut self, block: &Block, want: Option<&Ty>) -> Result<Value> {
        self.scopes.push(BTreeMap::new());
        let mut value = Value::unit();
        for (at, statement) in block.stmts.iter().enumerate() {
            let is_last = at + 1 == block.stmts.len();
            match statement {
                Stmt::Expr(expression, None) if is_last => value = self.expression(expression, want)?,
                Stmt::Expr(expression, semicolon) => {
                    let done = self.expression(expression, Some(&Ty::Unit).filter(|_| semicolon.is_none()))?;
                    match done.ty {
                        Ty::Never => value = done,
                        Ty::Unit => {}
                        // A compiler of C warns of a variable without a use.
                        _ => self.line(&format!("(void){};", done.c)),
                    }
                }
                Stmt::Local(local) => self.binding(local)?,
                Stmt::Macro(call) if call.mac.path.is_ident("debug_assert") => {}
                Stmt::Macro(call) => return self.outside(call, Problem::Macro),
                Stmt::Item(item) => return self.outside(item, Problem::InnerItem),
            }
        }
        self.scopes.pop();
        Ok(value)
    }

    fn binding(&mut self, binding: &syn::Local) -> Result<()> {
        let Some(init) = &binding.init else { return self.outside(binding, Problem::Uninitialized) };
        if let Some((_, diverge)) = &init.diverge {
            let option = self.option(&init.expr)?;
            let (name, inner) = self.some_pattern(&binding.pat, &option)?;
            let (text, value) = self.nested(|body| body.expression(diverge, None))?;
            if value.ty != Ty::Never {
                return self.outside(diverge, Problem::ElseGoesOn);
            }
            let tabs = self.tabs();
            let _ = write!(self.out, "{tabs}if (!{}.some) {{\n{text}{tabs}}}\n", option.c);
            self.bind(&name, &inner, false);
            return Ok(());
        }
        let (pattern, ty) = match &binding.pat {
            Pat::Type(typed) => {
                let of = self.of.clone();
                let translator = &mut *self.translator;
                let ty = translator.types.read(translator.sources, self.file, of.as_ref(), &typed.ty)?;
                (&*typed.pat, Some(ty))
            }
            other => (other, None),
        };
        if let Pat::Tuple(tuple) = pattern {
            return self.outside(tuple, Problem::Tuple);
        }
        let Pat::Ident(pattern) = pattern else { return self.outside(pattern, Problem::Pattern) };
        let value = self.expression(&init.expr, ty.as_ref())?;
        if let Some(ty) = &ty {
            self.expect(&init.expr, &value, ty)?;
        }
        self.bind(&pattern.ident.to_string(), &value, pattern.mutability.is_some());
        Ok(())
    }

    /// An option in a variable of its own.
    fn option(&mut self, expression: &Expr) -> Result<Value> {
        let value = self.expression(expression, None)?;
        if !matches!(value.ty, Ty::Option(_)) {
            return self.outside(expression, Problem::NotOption);
        }
        Ok(self.spill(&value))
    }
    /// The name in `Some(name)`, and the value that it gets.
    fn some_pattern(&self, pattern: &Pat, option: &Value) -> Result<(String, Value)> {
        if let Pat::TupleStruct(tuple) = pattern
            && tuple.path.is_ident("Some")
            && let (Some(inner), Ty::Option(ty)) = (tuple.elems.first(), &option.ty)
        {
            let value = Value::fixed(format!("{}.value", option.c), (**ty).clone());
            match inner {
                Pat::Ident(name) if name.subpat.is_none() && name.by_ref.is_none() && name.mutability.is_none() => {
                    return Ok((name.ident.to_string(), value));
                }
                Pat::Wild(_) => return Ok(("_".into(), value)),
                _ => {}
            }
        }
        self.outside(pattern, Problem::SomePattern)
    }

    /// A branch: its statements, which end with the assignment to `result` where it has a value.
    fn branch(
        &mut self,
        result: &str,
        want: Option<&Ty>,
        bound: Vec<(String, Value)>,
        write: impl FnOnce(&mut Self, Option<&Ty>) -> Result<Value>,
    ) -> Result<(String, Ty)> {
        self.nested(|body| {
            body.scopes.push(BTreeMap::new());
            for (name, value) in bound.into_iter().filter(|(name, _)| name != "_") {
                body.bind(&name, &value, false);
            }
            let value = write(body, want)?;
            if !matches!(value.ty, Ty::Unit | Ty::Never) {
                body.line(&format!("{result} = {};", value.c));
            }
            body.scopes.pop();
            Ok(value.ty)
        })
    }

    /// Writes branches with their conditions; the last has none. Returns their common value.
    fn branches(
        &mut self,
        at: &impl Spanned,
        result: String,
        list: Vec<(Option<String>, String, Ty)>,
    ) -> Result<Value> {
        let mut ty = Ty::Never;
        for (_, _, branch) in &list {
            if ty == Ty::Never {
                ty = branch.clone();
            } else if *branch != Ty::Never && *branch != ty {
                return Err(self.error(at, Problem::Branches, &format!("{ty} and {branch}")));
            }
        }
        if !matches!(ty, Ty::Unit | Ty::Never) {
            let c = self.translator.types.c(&ty);
            self.line(&format!("{c} {result};"));
        }
        let tabs = self.tabs();
        let mut text = tabs.clone();
        for (number, (condition, branch, _)) in list.iter().enumerate() {
            let head = match condition {
                Some(condition) if number == 0 => format!("if ({}) ", bare(condition)),
                Some(condition) => format!(" else if ({}) ", bare(condition)),
                None if number == 0 => String::new(),
                None if branch.is_empty() => continue,
                None => " else ".into(),
            };
            let _ = write!(text, "{head}{{\n{branch}{tabs}}}");
        }
        self.out += &text;
        self.out.push('\n');
        Ok(if matches!(ty, Ty::Unit | Ty::Never) { Value::fixed("", ty) } else { Value::fixed(result, ty) })
    }

    pub fn conditional(&mut self, expression: &syn::ExprIf, want: Option<&Ty>) -> Result<Value> {
        let result = self.name("t");
        if let Expr::Binary(binary) = &*expression.cond
            && matches!((&*binary.left, &*binary.right), (Expr::Let(_), _) | (_, Expr::Let(_)))
        {
            return self.outside(binary, Problem::LetChain);
        }
        let (condition, bound) = if let Expr::Let(pattern) = &*expression.cond {
            let option = self.option(&pattern.expr)?;
            let bound = self.some_pattern(&pattern.pat, &option)?;
            (format!("{}.some", option.c), vec![bound])
        } else {
            let condition = self.expression(&expression.cond, Some(&Ty::Bool))?;
            self.expect(&expression.cond, &condition, &Ty::Bool)?;
            (condition.c, Vec::new())
        };
        let (then, ty) = self.branch(&result, want, bound, |body, want| body.block(&expression.then_branch, want))?;
        let want = want.or(if matches!(ty, Ty::Unit | Ty::Never) { None } else { Some(&ty) });
        let (other, other_ty) = match &expression.else_branch {
            Some((_, other)) => self.branch(&result, want, Vec::new(), |body, want| body.expression(other, want))?,
            None => (String::new(), Ty::Unit),
        };
        let list = vec![(Some(condition), then, ty.clone()), (None, other, other_ty)];
        self.branches(expression, result, list)
    }

    /// `match` on an option or on an enum.
    pub fn choice(&mut self, expression: &syn::ExprMatch, want: Option<&Ty>) -> Result<Value> {
        let on = self.expression(&expression.expr, None)?;
        let on = self.spill(&on);
        let result = self.name("t");
        let mut list = Vec::new();
        let mut known: Option<Ty> = want.cloned();
        for (number, arm) in expression.arms.iter().enumerate() {
            if arm.guard.is_some() {
                return self.outside(arm, Problem::Guard);
            }
            let (mut condition, mut bound) = (None, Vec::new());
            match (&arm.pat, &on.ty) {
                (Pat::Wild(_), _) => {}
                (Pat::TupleStruct(_), Ty::Option(_)) => {
                    bound.push(self.some_pattern(&arm.pat, &on)?);
                    condition = Some(format!("{}.some", on.c));
                }
                (Pat::Ident(name), Ty::Option(_)) if name.ident == "None" => {
                    condition = Some(format!("!{}.some", on.c))
                }
                (pattern, Ty::Named(name)) => {
                    let name = name.clone();
                    let (is_it, values) = self.variant_pattern(pattern, &name, &on)?;
                    (condition, bound) = (Some(is_it), values);
                }
                (pattern, _) => return self.outside(pattern, Problem::ChoiceOn),
            }
            // Rust has checked that the arms are complete: the last needs no condition.
            let condition = condition.filter(|_| number + 1 < expression.arms.len());
            let (text, ty) =
                self.branch(&result, known.as_ref(), bound, |body, want| body.expression(&arm.body, want))?;
            if known.is_none() && !matches!(ty, Ty::Unit | Ty::Never) {
                known = Some(ty.clone());
            }
            let is_last = condition.is_none();
            list.push((condition, text, ty));
            if is_last {
                break;
            }
        }
        self.branches(expression, result, list)
    }
    /// The condition of a pattern that is a variant of the enum `name`, and what it binds.
    fn variant_pattern(&mut self, pattern: &Pat, name: &Name, on: &Value) -> Result<(String, Vec<(String, Value)>)> {
        let sources = self.translator.sources;
        let (file, Definition::Enum(item)) = &sources.types[name] else {
            return self.outside(pattern, Problem::ChoiceOn);
        };
        let path = match pattern {
            Pat::Path(path) => &path.path,
            Pat::TupleStruct(tuple) => &tuple.path,
            Pat::Struct(with_names) => &with_names.path,
            _ => return self.outside(pattern, Problem::Pattern),
        };
        let last = path.segments.last();
        let Some(found) = item.variants.iter().find(|variant| last.is_some_and(|last| last.ident == variant.ident))
        else {
            return self.outside(pattern, Problem::Pattern);
        };
        let mut list = Vec::new();
        match pattern {
            Pat::TupleStruct(tuple) => {
                list.extend(tuple.elems.iter().enumerate().map(|(at, inner)| (at.to_string(), inner)));
            }
            Pat::Struct(with_names) => list.extend(with_names.fields.iter().map(|field| match &field.member {
                syn::Member::Named(name) => (name.to_string(), &*field.pat),
                syn::Member::Unnamed(index) => (index.index.to_string(), &*field.pat),
            })),
            _ => {}
        }
        let mut bound = Vec::new();
        for (member, inner) in list {
            let to = match inner {
                Pat::Wild(_) => continue,
                Pat::Ident(to) if to.subpat.is_none() && to.by_ref.is_none() && to.mutability.is_none() => {
                    to.ident.to_string()
                }
                _ => return self.outside(inner, Problem::NestedPattern),
            };
            let fields = payload(found);
            let Some((c, _, ty)) = fields.iter().find(|field| field.1 == member) else {
                return self.outside(inner, Problem::Field);
            };
            let ty = self.translator.types.read(sources, *file, Some(name), ty)?;
            bound.push((to, Value::fixed(format!("{}.{c}", on.c), ty)));
        }
        let kind = if has_fields(item) { ".kind" } else { "" };
        Ok((format!("{}{kind} == {}", on.c, variant(name, &found.ident.to_string())), bound))
    }

    /// `for i in a..b`.
    pub fn repetition(&mut self, expression: &syn::ExprForLoop) -> Result<Value> {
        if let Some(label) = &expression.label {
            return self.outside(label, Problem::Label);
        }
        let Expr::Range(range) = &*expression.expr else {
            return self.outside(expression, Problem::Loop);
        };
        let (Some(start), Some(end), syn::RangeLimits::HalfOpen(_)) = (&range.start, &range.end, &range.limits) else {
            return self.outside(range, Problem::RangeKind);
        };
        let ty = self.type_of(end, None).or_else(|_| self.type_of(start, None)).unwrap_or(Ty::Int("u32"));
        let from = self.expression(start, Some(&ty))?;
        let to = self.expression(end, Some(&ty))?;
        let (from, to) = (self.spill(&from), self.spill(&to));
        let name = match &*expression.pat {
            Pat::Ident(name) => name.ident.to_string(),
            Pat::Wild(_) => "i".into(),
            other => return self.outside(other, Problem::Pattern),
        };
        let c = self.name(&name);
        let (text, _) = self.nested(|body| {
            body.scopes.push(BTreeMap::new());
            body.declare(&name, Value::new(c.clone(), from.ty.clone()));
            let done = body.block(&expression.body, None);
            body.scopes.pop();
            done
        })?;
        let (ty, tabs) = (self.translator.types.c(&from.ty), self.tabs());
        let _ = write!(self.out, "{tabs}TWIN_FOR({ty}, {c}, {}, {}) {{\n{text}{tabs}}}\n", from.c, to.c);
        Ok(Value::unit())
    }
}
