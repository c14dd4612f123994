// _core.serving_manifest(), _core.ServedTable and _core.Server.
#include <pybind11/stl.h>

#include <algorithm>
#include <optional>

#include "nimble/bindings/core_file.h"
#include "nimble/bindings/values/arrow_bridge.h"
#include "nimble/bindings/values/errors.h"
#include "nimble/bindings/values/gil.h"
#include "nimble/serve/batch/feature_vectors.h"
#include "nimble/serve/server.h"
#include "nimble/serve/snapshot/serving_manifest.h"

namespace py = pybind11;

namespace nimble {
namespace {

// For each column: (path in the schema, descending, nulls first).
using KeyPaths = std::vector<std::tuple<std::vector<int>, bool, bool>>;
// Columns of a key, and the lower and upper bounds of the files' keys.
using KeyOf = std::optional<
    std::tuple<KeyPaths, std::vector<py::bytes>, std::vector<py::bytes>>>;
// Column numbers, and a batch of one row with their values. The batch is None
// if there are no columns.
using ConstantsOf = std::pair<std::vector<uint32_t>, py::object>;
// (path, size, rows, constants, deleted rows or None).
using FileOf = std::tuple<std::string, uint64_t, uint64_t, ConstantsOf,
                          std::shared_ptr<RowBitmap>>;

std::vector<ServedConstant> constants_of(const ConstantsOf& given) {
  std::vector<ServedConstant> out;
  if (given.first.empty()) return out;
  const auto batch = ImportedArray::from_python(given.second);
  const ArrayView& view = batch->view();
  if (view.length() != 1 || view.children().size() != given.first.size()) {
    raise(Status::invalid_argument("constants: expected one row of values"));
  }
  const int64_t row = view.child_row(0);
  for (size_t i = 0; i < given.first.size(); ++i) {
    const ArrayView& value = view.children()[i];
    ServedConstant& constant = out.emplace_back();
    constant.column = given.first[i];
    if (!value.is_valid(row)) continue;
    const Field& field = value.field();
    if (field.layout == Layout::kBytes) {
      constant.value = std::string(value.bytes_at(row));
    } else if (field.layout == Layout::kBool) {
      constant.value = std::string(1, value.bool_at(row) ? '\1' : '\0');
    } else if (field.layout == Layout::kFixed) {
      const uint8_t* at =
          value.values() + static_cast<uint64_t>(row) * field.width;
      constant.value = std::string(as_string({at, field.width}));
    } else {
      raise(Status::unsupported("defaults of type " + field.type_name() +
                                " are not supported"));
    }
  }
  return out;
}

std::optional<ServedKey> key_of(const KeyOf& given) {
  if (!given) return std::nullopt;
  ServedKey out;
  for (const auto& [path, descending, nulls_first] : std::get<0>(*given)) {
    out.columns.push_back({path, {descending, nulls_first}});
  }
  for (const py::bytes& bound : std::get<1>(*given)) out.lower.push_back(bound);
  for (const py::bytes& bound : std::get<2>(*given)) out.upper.push_back(bound);
  return out;
}

py::bytes make_manifest(const std::string& name, const std::string& uuid,
                        std::optional<int64_t> snapshot, uint64_t created_ms,
                        const py::object& schema, const ConstantsOf& defaults,
                        const KeyOf& lookup_key, const KeyOf& cluster_key,
                        bool has_primary_key,
                        const std::vector<FileOf>& files) {
  ServingManifest m;
  m.name = name;
  m.uuid = uuid;
  m.snapshot = snapshot;
  m.created_ms = created_ms;
  m.schema = ImportedArray::from_python(schema)->field();
  m.defaults = constants_of(defaults);
  m.lookup_key = key_of(lookup_key);
  m.cluster_key = key_of(cluster_key);
  m.has_primary_key = has_primary_key;
  for (const auto& [path, size, rows, constants, deleted] : files) {
    m.files.push_back({path, size, rows, constants_of(constants), deleted});
  }
  const std::vector<uint8_t> bytes = m.serialize();
  // Checks the bytes here, so that an error is reported here and not in a
  // server.
  if (const auto parsed = ServingManifest::parse(bytes); !parsed) {
    raise(Status::invalid_argument(std::string(parsed.error().message())));
  }
  return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::shared_ptr<ServedTable> open_table(const py::bytes& manifest,
                                        const std::shared_ptr<OpenFiles>& files,
                                        size_t open_ahead) {
  const std::string_view bytes = manifest;
  auto table =
      unwrap(without_gil([&]() -> Result<std::shared_ptr<const ServedTable>> {
        NIMBLE_ASSIGN_OR_RETURN(ServingManifest parsed,
                                ServingManifest::parse(as_bytes(bytes)));
        NIMBLE_ASSIGN_OR_RETURN(auto made,
                                ServedTable::create(std::move(parsed), files));
        made->open_ahead(open_ahead);
        return made;
      }));
  return std::const_pointer_cast<ServedTable>(table);
}

using TablesOf = std::map<std::string, std::shared_ptr<ServedTable>>;

std::shared_ptr<const ServedTables> tables_of(const TablesOf& tables) {
  auto out = std::make_shared<ServedTables>();
  for (const auto& [name, table] : tables) out->emplace(name, table);
  return out;
}

struct ServerHandle {
  std::unique_ptr<Server> server;

  // Joins the server's threads. They may need the GIL, so it is released first.
  ~ServerHandle() {
    const WithoutGil nogil;
    server.reset();
  }
};

std::unique_ptr<ServerHandle> start_server(
    const TablesOf& tables, const std::string& unix_path,
    const std::string& host, uint16_t port, const std::string& token,
    const py::bytes& page_secret, uint64_t max_keys, uint64_t max_rows,
    uint64_t max_reply_bytes, uint32_t max_clients, uint32_t idle_seconds,
    uint32_t threads, bool allow_raw) {
  ServerOptions options;
  options.unix_path = unix_path;
  options.host = host;
  options.port = port;
  options.token = token;
  options.commands = {max_keys, max_rows, max_reply_bytes, allow_raw,
                      page_secret};
  options.resp.max_arguments = std::max(
      options.resp.max_arguments, std::min(max_keys, uint64_t{1} << 32) + 4096);
  options.max_clients = max_clients;
  options.idle_seconds = idle_seconds;
  options.loop_threads = threads;
  auto out = std::make_unique<ServerHandle>();
  out->server = unwrap(without_gil(
      [&] { return Server::start(std::move(options), tables_of(tables)); }));
  return out;
}

py::dict stats_of(const ServerHandle& handle) {
  const ServerStats s = handle.server->stats();
  py::dict out;
  out["clients"] = s.clients;
  out["accepted"] = s.accepted;
  out["rejected"] = s.rejected;
  out["commands"] = s.commands;
  out["errors"] = s.errors;
  out["busy"] = s.busy;
  out["bytes_in"] = s.bytes_in;
  out["bytes_out"] = s.bytes_out;
  out["swaps"] = s.swaps;
  out["latency"] = s.latency;
  out["seconds"] = s.seconds;
  out["by_command"] = py::dict();
  for (const auto& [name, count] : s.by_command) {
    out["by_command"][py::str(name)] = count;
  }
  return out;
}

// The fields `results` of a response of Feast, one for each column of a batch.
py::bytes feature_vectors(const py::handle& batch,
                          const std::vector<uint32_t>& numbers,
                          std::vector<int64_t> rows, std::string_view rest) {
  const auto columns = ImportedArray::from_python(batch);
  const ArrayView& view = columns->view();
  const bool is_inside = std::all_of(
      rows.begin(), rows.end(),
      [&](int64_t row) { return row >= kNoRow && row < view.length(); });
  if (view.children().size() != numbers.size() || !is_inside) {
    raise(Status::invalid_argument(
        "feature_vectors: expected a number for each column, and rows of the "
        "batch"));
  }
  for (int64_t& row : rows) {
    if (row != kNoRow) row = view.child_row(row);
  }
  std::string out;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const Status status =
        append_feature_vector(view.children()[i], numbers[i], rows, rest, &out);
    if (!status) raise(status);
  }
  return out;
}

}  // namespace

void register_serve(py::module_& m) {
  m.def("feature_vectors", &feature_vectors, py::arg("batch"),
        py::arg("numbers"), py::arg("rows"), py::arg("rest"));
  m.def("serving_manifest", &make_manifest, py::arg("name"), py::arg("uuid"),
        py::arg("snapshot"), py::arg("created_ms"), py::arg("schema"),
        py::arg("defaults"), py::arg("lookup_key"), py::arg("cluster_key"),
        py::arg("has_primary_key"), py::arg("files"));
  py::class_<OpenFiles, std::shared_ptr<OpenFiles>>(m, "ServedFiles")
      .def(py::init<>())
      .def("__len__", &OpenFiles::size);
  py::class_<ServedTable, std::shared_ptr<ServedTable>>(m, "ServedTable")
      .def(py::init(&open_table), py::arg("manifest"), py::arg("files"),
           py::arg("open_ahead"))
      .def_property_readonly("num_rows", &ServedTable::num_rows)
      .def_property_readonly(
          "name", [](const ServedTable& t) { return t.manifest().name; })
      .def_property_readonly("paths",
                             [](const ServedTable& t) {
                               std::vector<std::string> out;
                               for (const ServedFile& f : t.manifest().files) {
                                 out.push_back(f.path);
                               }
                               return out;
                             })
      .def_property_readonly("snapshot", [](const ServedTable& t) {
        return t.manifest().snapshot;
      });
  py::class_<ServerHandle>(m, "Server")
      .def(py::init(&start_server), py::arg("tables"), py::arg("unix"),
           py::arg("host"), py::arg("port"), py::arg("token"),
           py::arg("page_secret"), py::arg("max_keys"), py::arg("max_rows"),
           py::arg("max_reply_bytes"), py::arg("max_clients"),
           py::arg("idle_seconds"), py::arg("threads"), py::arg("allow_raw"))
      .def_property_readonly(
          "port", [](const ServerHandle& h) { return h.server->port(); })
      .def(
          "swap",
          [](const ServerHandle& h, const TablesOf& tables) {
            auto next = tables_of(tables);
            const WithoutGil nogil;
            h.server->swap(std::move(next));
          },
          py::arg("tables"))
      .def("stats", &stats_of)
      .def(
          "stop",
          [](const ServerHandle& h, double seconds) {
            const WithoutGil nogil;
            h.server->stop(seconds);
          },
          py::arg("seconds"));
}

}  // namespace nimble
