//! Tests of the configuration language.

mod advice;
mod any_text;
mod aqm;
mod both;
mod broken;
mod cbq;
mod ceilings;
mod conditioning;
mod conditions;
mod control;
mod default_class;
mod direction;
mod discipline_file;
mod edit;
mod examples;
mod follow;
mod hosts;
mod import;
mod outside;
mod readme;
mod rest;
mod schema;
mod threads;
mod times;
mod values;
