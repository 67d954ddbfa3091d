package dvcodec.interop;

import java.io.BufferedReader;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.Snapshot;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.deletionvectors.Bitmap64DeletionVector;
import org.apache.paimon.deletionvectors.BitmapDeletionVector;
import org.apache.paimon.deletionvectors.DeletionVector;
import org.apache.paimon.deletionvectors.append.AppendDeleteFileMaintainer;
import org.apache.paimon.deletionvectors.append.BaseAppendDeleteFileMaintainer;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.manifest.FileKind;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaManager;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.core.type.TypeReference;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.RowKind;

/**
 * Drives Paimon's own library where no released Spark connector can be had. Every byte of a table is written, and every
 * row is read, by Paimon. Rows travel as lines of JSON: id, part, name, price (may be null or missing), day.
 */
public final class PaimonTables {
    private static final ObjectMapper JSON = new ObjectMapper();

    private PaimonTables() {}

    /**
     * Makes an empty table.
     *
     * @param partitionKey a column, or null
     * @param primaryKey id, or null
     * @param options JSON: table options
     */
    public static void create(String root, String partitionKey, String primaryKey, String options) throws Exception {
        Schema schema =
                Schema.newBuilder()
                        .column("id", primaryKey == null ? DataTypes.BIGINT() : DataTypes.BIGINT().notNull())
                        .column("part", DataTypes.STRING())
                        .column("name", DataTypes.STRING())
                        .column("price", DataTypes.DOUBLE())
                        .column("day", DataTypes.DATE())
                        .partitionKeys(partitionKey == null ? List.of() : List.of(partitionKey))
                        .primaryKey(primaryKey == null ? List.of() : List.of(primaryKey))
                        .options(JSON.readValue(options, new TypeReference<Map<String, String>>() {}))
                        .build();
        new SchemaManager(LocalFileIO.create(), new Path(root)).createTable(schema);
    }

    /** Commits the rows of one file of JSON lines: as they are, or as deletions of their keys. */
    public static void write(String root, String lines, boolean delete) throws Exception {
        BatchWriteBuilder builder = open(root).newBatchWriteBuilder();
        try (IOManager io = IOManager.create(System.getProperty("java.io.tmpdir"));
                BatchTableWrite write = builder.newWrite();
                BatchTableCommit commit = builder.newCommit();
                BufferedReader rows = Files.newBufferedReader(java.nio.file.Path.of(lines))) {
            write.withIOManager(io);
            for (String line = rows.readLine(); line != null; line = rows.readLine()) {
                write.write(row(JSON.readTree(line), delete ? RowKind.DELETE : RowKind.INSERT));
            }
            commit.commit(write.prepareCommit());
        }
    }

    /**
     * Deletes rows of an append table by position, in one commit, with the classes that the Spark connector's DELETE uses.
     *
     * @param positions JSON: the bare name of a data file, and its positions
     */
    public static void delete(String root, String positions) throws Exception {
        FileStoreTable table = open(root);
        boolean wide = table.coreOptions().deletionVectorBitmap64();
        JsonNode wanted = JSON.readTree(positions);
        Snapshot snapshot = table.snapshotManager().latestSnapshot();
        Map<BinaryRow, AppendDeleteFileMaintainer> maintainers = new HashMap<>();
        for (DataSplit split : table.newSnapshotReader().read().dataSplits()) {
            for (DataFileMeta file : split.dataFiles()) {
                if (!wanted.has(file.fileName())) {
                    continue;
                }
                DeletionVector vector = wide ? new Bitmap64DeletionVector() : new BitmapDeletionVector();
                wanted.get(file.fileName()).forEach(position -> vector.delete(position.asLong()));
                maintainers
                        .computeIfAbsent(
                                split.partition(),
                                partition ->
                                        BaseAppendDeleteFileMaintainer.forUnawareAppend(
                                                table.store().newIndexFileHandler(), snapshot, partition))
                        .notifyNewDeletionVector(file.fileName(), vector);
            }
        }
        List<CommitMessage> messages = new ArrayList<>();
        for (AppendDeleteFileMaintainer maintainer : maintainers.values()) {
            List<IndexFileMeta> added = new ArrayList<>();
            List<IndexFileMeta> removed = new ArrayList<>();
            for (IndexManifestEntry entry : maintainer.persist()) {
                (entry.kind() == FileKind.ADD ? added : removed).add(entry.indexFile());
            }
            DataIncrement increment = new DataIncrement(List.of(), List.of(), List.of(), added, removed);
            messages.add(
                    new CommitMessageImpl(
                            maintainer.getPartition(), maintainer.getBucket(), null, increment, CompactIncrement.emptyIncrement()));
        }
        try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            commit.commit(messages);
        }
    }

    /** Writes what a scan of a snapshot returns to a file of JSON lines. */
    public static void read(String root, long version, String lines) throws Exception {
        FileStoreTable table = open(root).copy(Map.of("scan.snapshot-id", Long.toString(version)));
        ReadBuilder builder = table.newReadBuilder();
        try (IOManager io = IOManager.create(System.getProperty("java.io.tmpdir"));
                RecordReader<InternalRow> reader =
                        builder.newRead().withIOManager(io).createReader(builder.newScan().plan());
                PrintWriter out = new PrintWriter(lines, StandardCharsets.UTF_8)) {
            reader.forEachRemaining(
                    row -> {
                        ObjectNode node = JSON.createObjectNode().put("id", row.getLong(0));
                        node.put("part", row.getString(1).toString()).put("name", row.getString(2).toString());
                        node.put("price", row.isNullAt(3) ? null : row.getDouble(3));
                        node.put("day", LocalDate.ofEpochDay(row.getInt(4)).toString());
                        out.println(node);
                    });
        }
    }

    private static FileStoreTable open(String root) {
        return FileStoreTableFactory.create(LocalFileIO.create(), new Path(root));
    }

    private static InternalRow row(JsonNode node, RowKind kind) {
        return GenericRow.ofKind(
                kind,
                node.get("id").asLong(),
                BinaryString.fromString(node.get("part").asText()),
                BinaryString.fromString(node.get("name").asText()),
                node.has("price") ? node.get("price").asDouble() : null,
                (int) LocalDate.parse(node.get("day").asText()).toEpochDay());
    }
}
