// Writes and reads alive bitsets by tantivy itself. Cargo.toml: tantivy = "=0.27.0", default features off, feature "mmap".
// tantivy.del is the file of: make FOLDER 1000 $(seq -s, 0 3 999)
//   make FOLDER DOCS DELETED    an index of one segment with DOCS documents, of which those listed are deleted ("1,5")
//   read FOLDER                 documents of the segment, and the deleted ones
use tantivy::schema::{Schema, INDEXED};
use tantivy::{doc, merge_policy::NoMergePolicy, Index, IndexWriter, Term};

fn main() -> tantivy::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let folder = std::path::Path::new(&arguments[2]);
    if arguments[1] == "make" {
        std::fs::create_dir_all(folder)?;
        let mut builder = Schema::builder();
        let id = builder.add_u64_field("id", INDEXED);
        let index = Index::create_in_dir(folder, builder.build())?;
        let mut writer: IndexWriter = index.writer_with_num_threads(1, 100_000_000)?;
        writer.set_merge_policy(Box::new(NoMergePolicy));
        for number in 0..arguments[3].parse::<u64>().unwrap() {
            writer.add_document(doc!(id => number))?;
        }
        writer.commit()?;
        for number in arguments[4].split(',') {
            writer.delete_term(Term::from_field_u64(id, number.parse().unwrap()));
        }
        writer.commit()?;
    } else {
        let index = Index::open_in_dir(folder)?;
        for reader in index.reader()?.searcher().segment_readers() {
            let deleted: Vec<u32> = (0..reader.max_doc()).filter(|doc| reader.is_deleted(*doc)).collect();
            println!("{} {} {:?}", reader.max_doc(), reader.num_docs(), deleted);
        }
    }
    Ok(())
}
