package dvcodec.interop;

import com.fasterxml.jackson.annotation.JsonAutoDetect;
import com.fasterxml.jackson.annotation.PropertyAccessor;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.File;
import java.io.IOException;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.iceberg.Files;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.inmemory.InMemoryCatalog;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.rest.CatalogHandlers;
import org.apache.iceberg.rest.RESTCatalogProperties;
import org.apache.iceberg.rest.RESTSerializers;
import org.apache.iceberg.rest.requests.CreateNamespaceRequest;
import org.apache.iceberg.rest.requests.CreateTableRequest;
import org.apache.iceberg.rest.requests.RegisterTableRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequest;

/**
 * A REST catalog of Iceberg's own classes: {@code CatalogHandlers}, which check requirements and make new metadata, in
 * front of its catalog in memory. Files are local. It ends when its standard input does.
 *
 * <p>{@code POST /faults/NAME} makes the next commit meet a fault: {@code lost-answer} commits and answers 502,
 * {@code lost-request} answers 502 and does nothing.
 */
final class RestCatalog {
  private static final ObjectMapper MAPPER = mapper();

  private final InMemoryCatalog catalog = new InMemoryCatalog();
  private final AtomicReference<String> fault = new AtomicReference<>("");

  private RestCatalog(String warehouse) throws ReflectiveOperationException {
    catalog.initialize("rest", Map.of("warehouse", warehouse));
    Field io = InMemoryCatalog.class.getDeclaredField("io"); // which keeps files in memory too
    io.setAccessible(true);
    io.set(catalog, new LocalIO());
  }

  static void run(List<String> arguments) throws Exception {
    CommandLine.expect(arguments, 1, "rest-catalog WAREHOUSE");
    RestCatalog served = new RestCatalog(arguments.get(0));
    HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    server.createContext("/", served::handle);
    server.setExecutor(Executors.newFixedThreadPool(8));
    server.start();
    System.out.println(server.getAddress().getPort());
    while (System.in.read() >= 0) {}
    server.stop(0);
  }

  private void handle(HttpExchange exchange) throws IOException {
    try (exchange) {
      String method = exchange.getRequestMethod();
      String[] steps = exchange.getRequestURI().getRawPath().substring(1).split("/");
      byte[] body = exchange.getRequestBody().readAllBytes();
      try {
        Object answer = answer(method, steps, body);
        send(exchange, answer == null ? 204 : 200, answer);
      } catch (Gone gone) {
        send(exchange, 502, error(502, gone));
      } catch (RuntimeException e) {
        send(exchange, status(e), error(status(e), e));
      }
    }
  }

  private Object answer(String method, String[] steps, byte[] body) throws IOException {
    if (steps[0].equals("faults")) {
      fault.set(steps[1]);
      return null;
    }
    if (steps[1].equals("config")) {
      return Map.of("defaults", Map.of(), "overrides", Map.of());
    }
    if (steps.length == 2) {
      return CatalogHandlers.createNamespace(catalog, read(body, CreateNamespaceRequest.class));
    }
    Namespace namespace = Namespace.of(decoded(steps[2]).split("\u001f"));
    if (steps.length == 3) {
      return CatalogHandlers.loadNamespace(catalog, namespace);
    }
    if (steps[3].equals("register")) {
      return CatalogHandlers.registerTable(catalog, namespace, read(body, RegisterTableRequest.class));
    }
    if (steps.length == 4) {
      return method.equals("GET")
          ? CatalogHandlers.listTables(catalog, namespace)
          : CatalogHandlers.createTable(catalog, namespace, read(body, CreateTableRequest.class));
    }
    TableIdentifier table = TableIdentifier.of(namespace, decoded(steps[4]));
    switch (method) {
      case "GET":
        return CatalogHandlers.loadTable(catalog, table, RESTCatalogProperties.SnapshotMode.ALL);
      case "HEAD":
        CatalogHandlers.tableExists(catalog, table);
        return null;
      case "DELETE":
        CatalogHandlers.dropTable(catalog, table);
        return null;
      default:
        return commit(table, read(body, UpdateTableRequest.class));
    }
  }

  private Object commit(TableIdentifier table, UpdateTableRequest request) {
    String met = fault.getAndSet("");
    if (met.equals("lost-request")) {
      throw new Gone();
    }
    Object answer = CatalogHandlers.updateTable(catalog, table, request);
    if (met.equals("lost-answer")) {
      throw new Gone();
    }
    return answer;
  }

  private static <T> T read(byte[] body, Class<T> type) throws IOException {
    return MAPPER.readValue(body, type);
  }

  private static String decoded(String step) {
    return URLDecoder.decode(step, StandardCharsets.UTF_8);
  }

  private static int status(RuntimeException e) {
    if (e instanceof CommitFailedException || e instanceof AlreadyExistsException) {
      return 409;
    }
    if (e instanceof NoSuchTableException || e instanceof NoSuchNamespaceException) {
      return 404;
    }
    return e instanceof IllegalArgumentException || e instanceof ValidationException ? 400 : 500;
  }

  private static Object error(int code, RuntimeException e) {
    String message = String.valueOf(e.getMessage());
    return Map.of("error", Map.of("message", message, "type", e.getClass().getSimpleName(), "code", code));
  }

  private static void send(HttpExchange exchange, int status, Object answer) throws IOException {
    byte[] body = answer == null || exchange.getRequestMethod().equals("HEAD") ? null : MAPPER.writeValueAsBytes(answer);
    exchange.getResponseHeaders().add("Content-Type", "application/json");
    exchange.sendResponseHeaders(status, body == null ? -1 : body.length);
    if (body != null) {
      exchange.getResponseBody().write(body);
    }
  }

  private static ObjectMapper mapper() {
    ObjectMapper mapper = new ObjectMapper();
    mapper.setVisibility(PropertyAccessor.FIELD, JsonAutoDetect.Visibility.ANY);
    mapper.configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
    mapper.setPropertyNamingStrategy(new PropertyNamingStrategies.KebabCaseStrategy());
    RESTSerializers.registerAll(mapper);
    return mapper;
  }

  /** A gateway that lost the request or the answer. */
  private static final class Gone extends RuntimeException {
    private static final long serialVersionUID = 1;

    Gone() {
      super("bad gateway");
    }
  }

  /** Local files, by path or by URL. */
  private static final class LocalIO implements FileIO {
    private static final long serialVersionUID = 1;

    @Override
    public InputFile newInputFile(String path) {
      return Files.localInput(local(path));
    }

    @Override
    public OutputFile newOutputFile(String path) {
      return Files.localOutput(local(path));
    }

    @Override
    public void deleteFile(String path) {
      local(path).delete();
    }

    private static File local(String path) {
      return new File(path.replaceFirst("^file:/*", "/"));
    }
  }
}
