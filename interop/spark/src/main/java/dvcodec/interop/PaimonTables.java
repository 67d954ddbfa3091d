package dvcodec.interop;

import java.io.BufferedReader;
import java.io.PrintWriter;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.time.Duration;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.Collectors;
import org.apache.paimon.Snapshot;
import org.apache.paimon.append.AppendCompactCoordinator;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
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
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.reader.FileRecordIterator;
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
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.DataTypeRoot;
import org.apache.paimon.types.DecimalType;
import org.apache.paimon.types.RowKind;

/**
 * Drives Paimon's own library where no released Spark connector can be had. Every byte of a table is written, and every
 * row is read, by Paimon. Rows travel as lines of JSON, of the table's columns by name, as Spark writes them.
 */
public final class PaimonTables {
    private static final ObjectMapper JSON = new ObjectMapper();

    private PaimonTables() {}

    /**
     * Makes an empty table.
     *
     * @param columns JSON: names and types as Paimon's SQL writes them, in order
     * @param partitionKey a column, or null
     * @param primaryKeys JSON: columns
     * @param options JSON: table options
     */
    public static void create(String root, String columns, String partitionKey, String primaryKeys, String options)
            throws Exception {
        Schema.Builder schema = Schema.newBuilder();
        for (JsonNode column : JSON.readTree(columns)) {
            schema.column(column.get(0).asText(), DataTypeJsonParser.parseAtomicTypeSQLString(column.get(1).asText()));
        }
        schema.partitionKeys(partitionKey == null ? List.of() : List.of(partitionKey))
                .primaryKey(JSON.readValue(primaryKeys, new TypeReference<List<String>>() {}))
                .options(JSON.readValue(options, new TypeReference<Map<String, String>>() {}));
        new SchemaManager(LocalFileIO.create(), new Path(root)).createTable(schema.build());
    }

    /** Returns a type that SQL names. */
    public static DataType type(String name) {
        return DataTypeJsonParser.parseAtomicTypeSQLString(name);
    }

    /** Commits the rows of one file of JSON lines: as they are, or as deletions of their keys. */
    public static void write(String root, String lines, boolean delete) throws Exception {
        FileStoreTable table = open(root);
        List<DataField> fields = table.rowType().getFields();
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (IOManager io = IOManager.create(System.getProperty("java.io.tmpdir"));
                BatchTableWrite write = builder.newWrite();
                BatchTableCommit commit = builder.newCommit();
                BufferedReader rows = Files.newBufferedReader(java.nio.file.Path.of(lines))) {
            write.withIOManager(io);
            for (String line = rows.readLine(); line != null; line = rows.readLine()) {
                JsonNode node = JSON.readTree(line);
                GenericRow row = new GenericRow(delete ? RowKind.DELETE : RowKind.INSERT, fields.size());
                for (int i = 0; i < fields.size(); i++) {
                    row.setField(i, value(node.get(fields.get(i).name()), fields.get(i).type()));
                }
                write.write(row);
            }
            commit.commit(write.prepareCommit());
        }
    }

    /** Rewrites all files of an append table that compaction finds, or all of a table with a primary key. */
    public static void compact(String root) throws Exception {
        FileStoreTable table = open(root);
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        List<CommitMessage> messages = new ArrayList<>();
        try (IOManager io = IOManager.create(System.getProperty("java.io.tmpdir"));
                BatchTableWrite write = builder.newWrite();
                BatchTableCommit commit = builder.newCommit()) {
            if (table.primaryKeys().isEmpty()) {
                String user = UUID.randomUUID().toString();
                BaseAppendFileStoreWrite files = (BaseAppendFileStoreWrite) table.store().newWrite(user);
                for (AppendCompactTask task : new AppendCompactCoordinator(table, false).run()) {
                    messages.add(task.doCompact(table, files));
                }
            } else {
                write.withIOManager(io);
                for (DataSplit split : table.newSnapshotReader().read().dataSplits()) {
                    write.compact(split.partition(), split.bucket(), true);
                }
                messages.addAll(write.prepareCommit());
            }
            commit.commit(messages);
        }
    }

    /** Forgets the oldest snapshots, with the files that only they need. */
    public static void expire(String root, int retain) {
        ExpireConfig config =
                ExpireConfig.builder()
                        .snapshotRetainMax(retain)
                        .snapshotRetainMin(retain)
                        .snapshotTimeRetain(Duration.ZERO)
                        .build();
        open(root).newExpireSnapshots().config(config).expire();
    }

    /** Goes back to a snapshot; later ones are gone. */
    public static void rollback(String root, long version) {
        open(root).rollbackTo(version);
    }

    /** Gives a snapshot a name that keeps it. */
    public static void tag(String root, String name, long version) {
        open(root).createTag(name, version);
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

    /**
     * Writes what a scan of a snapshot returns to a file of JSON lines, with the bare name of each row's data file as
     * _file and its physical position as _pos.
     *
     * @param version null = as of now, in the latest schema
     * @return the columns, as Spark's DDL
     */
    public static String read(String root, Long version, String lines) throws Exception {
        FileStoreTable latest = open(root);
        FileStoreTable table =
                version == null ? latest : latest.copy(Map.of("scan.snapshot-id", Long.toString(version)));
        List<DataField> fields = table.rowType().getFields();
        ReadBuilder builder = table.newReadBuilder();
        try (IOManager io = IOManager.create(System.getProperty("java.io.tmpdir"));
                RecordReader<InternalRow> reader =
                        builder.newRead().withIOManager(io).createReader(builder.newScan().plan());
                PrintWriter out = new PrintWriter(lines, StandardCharsets.UTF_8)) {
            RecordReader.RecordIterator<InternalRow> batch;
            while ((batch = reader.readBatch()) != null) {
                FileRecordIterator<InternalRow> placed = (FileRecordIterator<InternalRow>) batch;
                for (InternalRow row = placed.next(); row != null; row = placed.next()) {
                    ObjectNode node = JSON.createObjectNode();
                    for (int i = 0; i < fields.size(); i++) {
                        DataField field = fields.get(i);
                        Object value = InternalRow.createFieldGetter(field.type(), i).getFieldOrNull(row);
                        node.putPOJO(field.name(), plain(value, field.type()));
                    }
                    node.put("_file", placed.filePath().getName()).put("_pos", placed.returnedPosition());
                    out.println(node);
                }
                placed.releaseBatch();
            }
        }
        return fields.stream()
                .map(field -> "`" + field.name() + "` " + sparkType(field.type()))
                .collect(Collectors.joining(", "));
    }

    private static FileStoreTable open(String root) {
        return FileStoreTableFactory.create(LocalFileIO.create(), new Path(root));
    }

    private static Object value(JsonNode node, DataType type) throws Exception {
        if (node == null || node.isNull()) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return node.asBoolean();
            case INTEGER:
                return node.asInt();
            case BIGINT:
                return node.asLong();
            case FLOAT:
                return (float) node.asDouble();
            case DOUBLE:
                return node.asDouble();
            case VARCHAR:
                return BinaryString.fromString(node.asText());
            case VARBINARY:
                return node.binaryValue();
            case DATE:
                return (int) LocalDate.parse(node.asText()).toEpochDay();
            case DECIMAL:
                DecimalType decimal = (DecimalType) type;
                return Decimal.fromBigDecimal(
                        new BigDecimal(node.asText()), decimal.getPrecision(), decimal.getScale());
            case TIMESTAMP_WITHOUT_TIME_ZONE:
                return Timestamp.fromLocalDateTime(LocalDateTime.parse(node.asText()));
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return Timestamp.fromInstant(OffsetDateTime.parse(node.asText()).toInstant());
            default:
                throw new IllegalArgumentException(type.toString());
        }
    }

    private static Object plain(Object value, DataType type) {
        if (value == null || value instanceof Number || value instanceof Boolean || value instanceof byte[]) {
            return value instanceof Integer && type.getTypeRoot() == DataTypeRoot.DATE
                    ? LocalDate.ofEpochDay((int) value).toString()
                    : value;
        }
        if (value instanceof Timestamp) {
            boolean zoned = type.getTypeRoot() == DataTypeRoot.TIMESTAMP_WITH_LOCAL_TIME_ZONE;
            LocalDateTime time = ((Timestamp) value).toLocalDateTime();
            return DateTimeFormatter.ISO_LOCAL_DATE_TIME.format(time) + (zoned ? "Z" : "");
        }
        return value instanceof Decimal ? ((Decimal) value).toBigDecimal() : value.toString();
    }

    private static String sparkType(DataType type) {
        String name = type.copy(true).asSQLString();
        if (name.startsWith("TIMESTAMP")) {
            return type.getTypeRoot() == DataTypeRoot.TIMESTAMP_WITH_LOCAL_TIME_ZONE ? "TIMESTAMP" : "TIMESTAMP_NTZ";
        }
        return name.equals("BYTES") ? "BINARY" : name;
    }
}
