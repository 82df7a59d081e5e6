//! The changes of a source file: at each place, what else could stand there.

use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Block, Expr, Lit, ReturnType, Signature, Type, UnOp};

/// A place, and what can stand there instead.
#[derive(Debug)]
pub struct Place {
    /// The bytes of the expression; empty, after the opening brace, for the body of a function.
    pub range: Range<usize>,
    /// Line and column, from 1.
    pub at: (usize, usize),
    /// The type and the function.
    pub within: String,
    /// Each with its description.
    pub instead: Vec<(String, String)>,
}

/// Finds the places of a file. Tests, constant expressions, patterns, types and the arguments of macros have none.
pub fn places(text: &str) -> syn::Result<Vec<Place>> {
    let mut finder = Finder { text, within: Vec::new(), found: Vec::new() };
    finder.visit_file(&syn::parse_file(text)?);
    let mut found = finder.found;
    // An expression before those in it.
    found.sort_by_key(|place| (place.range.start, std::cmp::Reverse(place.range.end)));
    Ok(found)
}

struct Finder<'a> {
    text: &'a str,
    within: Vec<String>,
    found: Vec<Place>,
}

impl Finder<'_> {
    fn text(&self, of: &impl Spanned) -> String {
        self.text[of.span().byte_range()].to_owned()
    }
    fn add(&mut self, span: Span, range: Range<usize>, instead: Vec<(String, String)>) {
        if !instead.is_empty() {
            let at = (span.start().line, span.start().column + 1);
            self.found.push(Place { range, at, within: self.within.join("::"), instead });
        }
    }
    fn expression(&mut self, whole: &Expr, instead: Vec<String>) {
        let old = shortened(&self.text(whole));
        let instead = instead.into_iter().map(|new| (format!("`{old}` -> `{}`", shortened(&new)), new)).collect();
        self.add(whole.span(), whole.span().byte_range(), instead);
    }
    /// An expression with an operator, which is named by the place of the operator.
    fn operation(&mut self, whole: &Expr, binary: &syn::ExprBinary) {
        let (left, right) = (self.text(&binary.left), self.text(&binary.right));
        let (old, operator) = (shortened(&self.text(whole)), self.text(&binary.op));
        let described =
            |other: &&str| (format!("`{operator}` -> `{other}` in `{old}`"), format!("({left}) {other} ({right})"));
        let instead = others(&binary.op).iter().map(described).collect();
        self.add(binary.op.span(), whole.span().byte_range(), instead);
    }
    fn body(&mut self, signature: &Signature, block: &Block) {
        let old = self.text(block);
        let old = old.trim_start_matches('{').trim_end_matches('}').trim();
        if signature.constness.is_some() || old.is_empty() || signature.ident == "default" {
            return;
        }
        let values = match &signature.output {
            ReturnType::Default => vec![String::new()],
            ReturnType::Type(_, of) => values(of),
        };
        let values = values.into_iter().filter(|value| value.replace("std::ops::", "") != old);
        let instead = values.map(|value| (format!("body -> `{value}`"), format!("return {value}"))).collect();
        let end = block.brace_token.span.open().byte_range().end;
        self.add(signature.ident.span(), end..end, instead);
    }
    fn function(&mut self, signature: &Signature, block: &Block) {
        self.within.push(signature.ident.to_string());
        self.body(signature, block);
        if signature.constness.is_none() {
            self.visit_block(block);
        }
        self.within.pop();
    }
}

/// One line of at most 60 characters.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > 60 { line.chars().take(57).chain("...".chars()).collect() } else { line }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list().map(|list| list.tokens.to_string()).unwrap_or_default();
        attribute.path().is_ident("test") || attribute.path().is_ident("cfg") && list == "test"
    })
}

/// Values of a type that a function could return without doing anything.
fn values(of: &Type) -> Vec<String> {
    let default = || "Default::default()".to_owned();
    match of {
        Type::Tuple(tuple) if tuple.elems.is_empty() => vec![String::new()],
        Type::Tuple(tuple) => vec![format!("({})", vec![default(); tuple.elems.len()].join(", "))],
        Type::Paren(inner) => values(&inner.elem),
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { return Vec::new() };
            let argument = match &last.arguments {
                syn::PathArguments::AngleBracketed(list) => list.args.iter().find_map(|argument| match argument {
                    syn::GenericArgument::Type(of) => Some(of),
                    _ => None,
                }),
                _ => None,
            };
            let inner = || argument.map(values).unwrap_or_default();
            match last.ident.to_string().as_str() {
                "bool" => ["true", "false"].map(str::to_owned).into(),
                "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i64" | "i128" => {
                    ["0", "1"].map(str::to_owned).into()
                }
                "Option" => {
                    std::iter::once("None".into()).chain(inner().iter().map(|value| format!("Some({value})"))).collect()
                }
                "Result" if argument.is_none() => vec!["Ok(())".into()],
                "Result" => inner().iter().map(|value| format!("Ok({})", or_unit(value))).collect(),
                "ControlFlow" => ["Break", "Continue"].map(|way| format!("std::ops::ControlFlow::{way}(())")).into(),
                "Ordering" => ["Less", "Equal", "Greater"].map(|way| format!("core::cmp::Ordering::{way}")).into(),
                "Deadline" => vec!["Deadline::Now".into(), "Deadline::Idle".into()],
                _ => vec![default()],
            }
        }
        _ => Vec::new(),
    }
}

fn or_unit(value: &str) -> &str {
    if value.is_empty() { "()" } else { value }
}

/// What an operator is replaced by.
fn others(operator: &BinOp) -> &'static [&'static str] {
    match operator {
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::Lt(_) => &["<=", ">"],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Gt(_) => &[">=", "<"],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::Add(_) => &["-", "*"],
        BinOp::Sub(_) => &["+", "/"],
        BinOp::Mul(_) => &["+", "/"],
        BinOp::Div(_) => &["*", "%"],
        BinOp::Rem(_) => &["/", "+"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::BitAnd(_) => &["|", "^"],
        BinOp::BitOr(_) => &["&", "^"],
        BinOp::BitXor(_) => &["|", "&"],
        BinOp::AddAssign(_) => &["-=", "*="],
        BinOp::SubAssign(_) => &["+=", "/="],
        BinOp::MulAssign(_) => &["+=", "/="],
        BinOp::DivAssign(_) => &["*=", "%="],
        BinOp::RemAssign(_) => &["/=", "+="],
        BinOp::ShlAssign(_) => &[">>="],
        BinOp::ShrAssign(_) => &["<<="],
        BinOp::BitAndAssign(_) => &["|=", "^="],
        BinOp::BitOrAssign(_) => &["&=", "^="],
        BinOp::BitXorAssign(_) => &["|=", "&="],
        _ => &[],
    }
}

/// Whether an expression is a chain with a `let`, which only stands in a condition.
fn binds(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) => binds(&binary.left) || binds(&binary.right),
        _ => false,
    }
}

/// Whether a path names a constant.
fn is_constant(path: &syn::ExprPath) -> bool {
    let name = path.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
    name.len() > 1 && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

fn literals(literal: &Lit) -> Vec<String> {
    match literal {
        Lit::Bool(bool) => vec![(!bool.value).to_string()],
        Lit::Int(int) => {
            let others = match int.base10_parse::<u128>() {
                Ok(0) => vec![1],
                Ok(n @ 1..16) => vec![n - 1, n + 1],
                Ok(n) => vec![n / 2, n.saturating_mul(2)],
                Err(_) => Vec::new(),
            };
            others.iter().map(|other| format!("{other}{}", int.suffix())).collect()
        }
        _ => Vec::new(),
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_expr(&mut self, whole: &'ast Expr) {
        match whole {
            Expr::Binary(binary) if !binds(whole) => self.operation(whole, binary),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_) | UnOp::Neg(_)) => {
                let inner = self.text(&unary.expr);
                self.expression(whole, vec![inner]);
            }
            Expr::Lit(literal) => self.expression(whole, literals(&literal.lit)),
            Expr::Path(path) if is_constant(path) => {
                let name = self.text(path);
                let others = match name.rsplit("::").next() {
                    Some("ZERO") => Vec::new(),
                    Some("MAX") => vec![format!("{name} / 2")],
                    _ => vec![format!("{name} / 2"), format!("{name} * 2")],
                };
                self.expression(whole, others);
            }
            _ => {}
        }
        visit::visit_expr(self, whole);
    }
    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let Some((_, guard)) = &arm.guard
            && !binds(guard)
        {
            self.expression(guard, vec!["true".into(), "false".into()]);
        }
        visit::visit_arm(self, arm);
    }
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            self.function(&item.sig, &item.block);
        }
    }
    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
    }
    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
    }
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let of = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
        if of.is_some_and(|of| of.ident == "Debug") {
            return;
        }
        self.within.push(match &*item.self_ty {
            Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default(),
            other => self.text(other),
        });
        visit::visit_item_impl(self, item);
        self.within.pop();
    }
    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.within.push(item.ident.to_string());
        visit::visit_item_trait(self, item);
        self.within.pop();
    }
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }
    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }
    // Constant expressions, and what is no expression.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let places = places(text).unwrap();
        places.iter().flat_map(|place| place.instead.iter().map(|(_, new)| new.clone())).collect()
    }

    #[test]
    fn operators_bodies_guards_and_constants_are_changed() {
        assert_eq!(
            found("fn f(a: u32) -> bool { a < 3 }"),
            ["return true", "return false", "(a) <= (3)", "(a) > (3)", "2", "4"]
        );
        assert_eq!(found("fn f(a: bool, b: bool) { g(!a && b) }"), ["return ", "(!a) || (b)", "a"]);
        assert_eq!(found("fn f(a: &mut A) { a.b += a.c }"), ["return ", "(a.b) -= (a.c)", "(a.b) *= (a.c)"]);
        assert_eq!(
            found("fn f() -> &'static str { match x { 1 if y => MOST, _ => z } }"),
            ["true", "false", "MOST / 2", "MOST * 2"]
        );
        assert_eq!(
            found("fn f() -> Result<Option<u8>, E> { g() }"),
            ["return Ok(None)", "return Ok(Some(0))", "return Ok(Some(1))"]
        );
    }

    #[test]
    fn constants_tests_patterns_and_chains_with_let_are_left_alone() {
        for text in [
            "const A: u32 = 1 + 2;",
            "const fn f() -> u32 { 1 + 2 }",
            "#[cfg(test)] mod tests { fn f() -> u32 { 1 } }",
            "#[test] fn f() { g(1) }",
            "impl fmt::Debug for A { fn fmt(&self) -> bool { true && self.0 } }",
            "fn f() {}",
            "fn f() -> &A { if let Some(1..=2) = x && y { [z; 3] } else { w::<4>(v as [u8; 5]) } }",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_mutant_is_named_by_place_function_and_change() {
        let places =
            places("impl A {\n    fn f(&self) -> &u32 {\n        self.g(a\n            == b)\n    }\n}").unwrap();
        assert_eq!((places[0].at, places[0].within.as_str()), ((4, 13), "A::f"));
        assert_eq!(places[0].instead[0].0, "`==` -> `!=` in `a == b`");
    }
}
