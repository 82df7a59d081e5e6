//! From functions of Rust to functions of C.
//!
//! A function is translated when something that is translated calls it. Every call and every value of a block becomes a
//! local variable of C, so that the order of evaluation is that of Rust.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Block, Expr, FnArg, Pat};

use super::body::Body;
use super::problem::{Problem, Result};
use super::source::{Code, Key, Name, Sources};
use super::types::{Ty, Types, local, prefix};

/// A function that is translated: its name in C and its types.
#[derive(Clone)]
pub struct Signature {
    pub c: String,
    pub parameters: Vec<Ty>,
    pub returns: Ty,
}

/// A constant array that is translated: its name in C, the type of its elements and their number.
#[derive(Clone)]
pub struct Table {
    pub c: String,
    pub of: Ty,
    pub count: usize,
}

pub struct Translator<'a> {
    pub sources: &'a Sources,
    pub types: Types,
    functions: BTreeMap<Key, Signature>,
    tables: BTreeMap<Key, Table>,
    open: BTreeSet<Key>,
    text: String,
}

impl<'a> Translator<'a> {
    pub fn new(sources: &'a Sources) -> Self {
        let (types, text) = (Types::default(), String::new());
        Self { sources, types, functions: BTreeMap::new(), tables: BTreeMap::new(), open: BTreeSet::new(), text }
    }

    /// The C of everything that was asked for: types, then functions.
    pub fn finish(self) -> String {
        self.types.text + &self.text
    }

    /// Translates what the chassis calls, which has the text `c`, and what that uses.
    pub fn roots(&mut self, c: &str) -> Result<()> {
        let called = called(c);
        let sources = self.sources;
        for (key, code) in sources.functions.iter().filter(|(key, _)| key.right.is_none()) {
            if called.contains(c_name(key, code.of.as_ref()).as_str()) {
                self.function(key)?;
            }
        }
        for (key, code) in &sources.constants {
            if called.contains(c_name(key, code.of.as_ref()).as_str()) {
                self.constant(key)?;
            }
        }
        Ok(())
    }

    /// The signature of a function, which is translated now if it was not yet; `None` if there is none.
    pub fn function(&mut self, key: &Key) -> Result<Option<Signature>> {
        if let Some(done) = self.functions.get(key) {
            return Ok(Some(done.clone()));
        }
        let sources = self.sources;
        let Some(code) = sources.functions.get(key) else { return Ok(None) };
        let (signature, block) = &code.item;
        let of = code.of.as_ref();
        if of.is_none() {
            sources.single(code.file, &signature.ident, &(key.module.clone(), key.name.clone()))?;
        }
        if !self.open.insert(key.clone()) {
            return Err(sources.outside(code.file, &signature.ident, Problem::Recursion, ""));
        }
        if let Some(parameter) = signature.generics.params.first() {
            return Err(sources.outside(code.file, parameter, Problem::GenericFunction, ""));
        }
        let mut parameters = Vec::new();
        for input in &signature.inputs {
            parameters.push(match input {
                FnArg::Receiver(receiver) => {
                    let Some(of) = of else {
                        return Err(sources.outside(code.file, receiver, Problem::SelfWithoutType, ""));
                    };
                    let ty = self.types.read(sources, code.file, Some(of), &receiver.ty)?;
                    ("self".to_owned(), ty)
                }
                FnArg::Typed(argument) => {
                    let Pat::Ident(pattern) = &*argument.pat else {
                        return Err(sources.outside(code.file, &argument.pat, Problem::ParameterPattern, ""));
                    };
                    if pattern.mutability.is_some() {
                        return Err(sources.outside(code.file, pattern, Problem::MutableParameter, ""));
                    }
                    (pattern.ident.to_string(), self.types.read(sources, code.file, of, &argument.ty)?)
                }
            });
        }
        let returns = match &signature.output {
            syn::ReturnType::Default => Ty::Unit,
            syn::ReturnType::Type(_, ty) => self.types.read(sources, code.file, of, ty)?,
        };
        self.define(key, code, parameters, returns, block).map(Some)
    }

    /// The function of C without arguments that returns a constant; `None` if there is none.
    pub fn constant(&mut self, key: &Key) -> Result<Option<Signature>> {
        if let Some(done) = self.functions.get(key) {
            return Ok(Some(done.clone()));
        }
        let sources = self.sources;
        let Some(code) = sources.constants.get(key) else { return Ok(None) };
        let (ty, value) = &code.item;
        let ty = self.types.read(sources, code.file, code.of.as_ref(), ty)?;
        let block =
            Block { brace_token: syn::token::Brace::default(), stmts: vec![syn::Stmt::Expr(Expr::clone(value), None)] };
        self.define(key, code, Vec::new(), ty, &block).map(Some)
    }

    /// A constant array of integers, each of them written out; `None` if there is none, or if their number is no power of two: an index
    /// is masked, for the kernel's verifier.
    pub fn table(&mut self, key: &Key) -> Result<Option<Table>> {
        if let Some(done) = self.tables.get(key) {
            return Ok(Some(done.clone()));
        }
        let sources = self.sources;
        let Some(code) = sources.constants.get(key) else { return Ok(None) };
        let (syn::Type::Array(ty), Expr::Array(list)) = &code.item else { return Ok(None) };
        let of = self.types.read(sources, code.file, None, &ty.elem)?;
        let number = |element: &Expr| match element {
            Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(number), .. }) => {
                Some(format!("{}ull", number.base10_digits()))
            }
            _ => None,
        };
        let numbers: Option<Vec<String>> = list.elems.iter().map(number).collect();
        let (Ty::Int(_), Some(numbers)) = (&of, numbers) else { return Ok(None) };
        let (c, count) = (c_name(key, None), numbers.len());
        if !count.is_power_of_two() {
            return Ok(None);
        }
        let rows: String = numbers.chunks(4).map(|row| format!("\t{},\n", row.join(", "))).collect();
        self.text += &format!(
            "/* {} of {} */\nstatic const {} {c}[{count}] = {{\n{rows}}};\n\n",
            key.name,
            sources.files[code.file].path,
            self.types.c(&of)
        );
        let table = Table { c, of, count };
        self.tables.insert(key.clone(), table.clone());
        Ok(Some(table))
    }

    fn define<T>(
        &mut self,
        key: &Key,
        code: &Code<T>,
        parameters: Vec<(String, Ty)>,
        returns: Ty,
        block: &Block,
    ) -> Result<Signature> {
        let (file, of) = (code.file, code.of.clone());
        let c = c_name(key, of.as_ref());
        let list: Vec<String> = parameters
            .iter()
            .map(|(name, ty)| {
                let ty = self.types.c(ty);
                format!("{ty}{}{}", if ty.ends_with('*') { "" } else { " " }, local(name))
            })
            .collect();
        let list = if list.is_empty() { "void".to_owned() } else { list.join(", ") };
        let types = parameters.iter().map(|(_, ty)| ty.clone()).collect();
        let text = Body::new(self, file, of.clone(), parameters, returns.clone()).function(block)?;
        let place = of.map_or(String::new(), |(_, name)| format!("{name}::"));
        self.text += &format!(
            "/* {place}{} of {} */\nTWIN_INLINE {} {c}({list})\n{{\n{text}}}\n\n",
            key.name,
            self.sources.files[file].path,
            self.types.c(&returns)
        );
        let signature = Signature { c, parameters: types, returns };
        self.functions.insert(key.clone(), signature.clone());
        Ok(signature)
    }
}

/// The names that are called in a text of C.
fn called(c: &str) -> BTreeSet<&str> {
    let ends = c.match_indices('(').map(|(at, _)| &c[..at]);
    ends.map(|before| {
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        &before[before.trim_end_matches(is_name).len()..]
    })
    .filter(|name| !name.is_empty())
    .collect()
}

fn c_name(key: &Key, of: Option<&Name>) -> String {
    let right = key.right.as_ref().map(|right| format!("_{}", right.to_lowercase())).unwrap_or_default();
    let name = key.name.to_lowercase();
    of.map_or_else(|| format!("{}_{name}", key.module), |of| format!("{}_{name}{right}", prefix(of)))
}
