//! Images, containers and clones.

mod image;
mod image_clones;
mod image_containers;
mod image_examples;
