//! A service of notes, with state, paths, queries and JSON:
//! `cargo run --release -p ramie-http --example rest -- 127.0.0.1:8080`.
//!
//! ```text
//! curl -i 127.0.0.1:8080/notes --json '{"title": "Milk", "text": "two bottles"}'
//! curl 127.0.0.1:8080/notes/1
//! curl '127.0.0.1:8080/notes?contains=milk&limit=10'
//! curl -X PUT 127.0.0.1:8080/notes/1 --json '{"title": "Milk"}'
//! curl -i -X DELETE 127.0.0.1:8080/notes/1
//! ```

use std::{collections::BTreeMap, sync::Arc};

use ramie::sync::Mutex;
use ramie_http::{
    Router, Server, StatusCode,
    extract::{Json, Path, Query, Rejection, State},
    get,
};
use serde::{Deserialize, Serialize};

/// All notes by their numbers.
#[derive(Default)]
struct Notes {
    by_id: BTreeMap<u64, Note>,
    last_id: u64,
}

#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Note {
    title: String,
    #[serde(default)]
    text: String,
}

/// A note with its number, as responses have it.
#[derive(Serialize)]
struct Numbered {
    id: u64,
    #[serde(flatten)]
    note: Note,
}

#[derive(Deserialize)]
struct Search {
    contains: Option<String>,
    #[serde(default = "default_limit")]
    limit: usize,
}

fn default_limit() -> usize {
    100
}

type Shared = State<Arc<Mutex<Notes>>>;

fn not_found(id: u64) -> Rejection {
    Rejection::new(StatusCode::NOT_FOUND, format!("there is no note {id}"))
}

fn list(State(notes): Shared, Query(search): Query<Search>) -> Json<Vec<Numbered>> {
    let word = search.contains.unwrap_or_default().to_lowercase();
    let is_found = |note: &Note| {
        note.title.to_lowercase().contains(&word) || note.text.to_lowercase().contains(&word)
    };
    let notes = notes.lock().unwrap();
    let found = notes.by_id.iter().filter(|(_, note)| is_found(note)).take(search.limit);
    Json(found.map(|(&id, note)| Numbered { id, note: note.clone() }).collect())
}

fn create(
    State(notes): Shared,
    Json(note): Json<Note>,
) -> (StatusCode, [(&'static str, String); 1], Json<Numbered>) {
    let mut notes = notes.lock().unwrap();
    notes.last_id += 1;
    let id = notes.last_id;
    notes.by_id.insert(id, note.clone());
    (StatusCode::CREATED, [("location", format!("/notes/{id}"))], Json(Numbered { id, note }))
}

fn read(State(notes): Shared, Path(id): Path<u64>) -> Result<Json<Numbered>, Rejection> {
    let note = notes.lock().unwrap().by_id.get(&id).cloned().ok_or_else(|| not_found(id))?;
    Ok(Json(Numbered { id, note }))
}

fn replace(
    State(notes): Shared,
    Path(id): Path<u64>,
    Json(note): Json<Note>,
) -> Result<Json<Numbered>, Rejection> {
    let mut notes = notes.lock().unwrap();
    let place = notes.by_id.get_mut(&id).ok_or_else(|| not_found(id))?;
    place.clone_from(&note);
    Ok(Json(Numbered { id, note }))
}

fn delete(State(notes): Shared, Path(id): Path<u64>) -> Result<StatusCode, Rejection> {
    let removed = notes.lock().unwrap().by_id.remove(&id);
    removed.map(|_| StatusCode::NO_CONTENT).ok_or_else(|| not_found(id))
}

fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let router = Router::new()
        .route("/notes", get(list).post(create))
        .route("/notes/{id}", get(read).put(replace).delete(delete))
        .with_state(Arc::new(Mutex::new(Notes::default())));
    ramie::run(|| {
        let server = Server::bind(&address)?;
        println!("listening on {}", server.local_addr()?);
        server.serve(router)
    })
}
