// See the header.
#include "server/models/pull.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "engine/residency/memory_limit.h"
#include "kernels/base/file_error.h"
#include "kernels/base/sha256.h"
#include "profiler/store/choice.h"
#include "profiler/store/known_models.h"
#include "server/models/download.h"
#include "server/models/hub_token.h"
#include "server/models/pull_progress.h"
#include "server/models/trusted_certificates.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostDescriptionBytes = 32 << 20;
constexpr std::chrono::milliseconds kLockTick{200};

std::atomic<int> noted_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void note_pull_signal(int signal) {
  noted_signal = signal;
  std::signal(signal, SIG_DFL);  // a second signal ends the process
}

void look() {
  if (noted_signal != 0) throw PullInterrupted();
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

std::string files_text(size_t n, uint64_t bytes) {
  return (n == 1 ? std::string() : std::to_string(n) + " parts, ") +
         (bytes > 0 ? bytes_text(static_cast<double>(bytes)) : "of unknown size");
}

/// The files of one download, with their sources and destinations.
struct Task {
  std::string name;   // display name
  std::string label;  // begins sentences: "hf:OWNER/REPO"
  struct File {
    std::string url;
    fs::path place;
    ModelOrigin origin;
  };
  std::vector<File> files;
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const File& file : files) sum += file.origin.size;
    return sum;
  }
};

bool is_set(const Environment& environment, const std::string& name) {
  const std::string value = lower_case(environment_value(environment, name));
  return !value.empty() && value != "0" && value != "false" && value != "no" && value != "off";
}

class Pull {
 public:
  Pull(const PullOptions& pull, const Options& options, const Environment& environment)
      : pull_(pull), store_(model_store(options, environment)), environment_(environment) {
    const std::string of_hub = environment_value(environment, "HF_ENDPOINT");
    endpoint_ = checked_endpoint(!options.endpoint.empty() ? options.endpoint
                                 : !of_hub.empty()         ? of_hub
                                                           : std::string(kHuggingFace));
    if (!pull.sha256.empty() && !is_sha256(pull.sha256))
      throw ReferenceError("--sha256 wants 64 hexadecimal digits, as sha256sum prints them");
  }

  fs::path run() {
    const Task task = find_task();
    if (const std::optional<fs::path> there = what_is_there(task)) return *there;
    return load(task);
  }

 private:
  Task find_task() {
    ModelReference reference = parse_model_reference(pull_.model);
    if (const NameReference* name = std::get_if<NameReference>(&reference)) {
      const KnownModel* known = find_known_model(name->name);
      if (known == nullptr)
        throw ReferenceError(pull_.model +
                             " is not a known model; hearthd list --known shows those, and hf:OWNER/REPO "
                             "names any of the hub" +
                             similar_models(name->name, {}));
      reference = parse_model_reference(known->reference);
    }
    if (const PathReference* path = std::get_if<PathReference>(&reference)) {
      throw ReferenceError(file_error::quoted(path->path, 512) +
                           " cannot be pulled; expected hf:OWNER/REPO[:QUANT], " +
                           "a URL, or a name of hearthd list --known");
    }
    if (is_set(environment_, "HF_HUB_OFFLINE"))
      throw PullError(pull_.model + " is not fetched: HF_HUB_OFFLINE says to stay off the network");
    if (const UrlReference* url = std::get_if<UrlReference>(&reference)) {
      if (!pull_.token_file.empty())
        throw ReferenceError("--token-file is for hf: models; no token is sent to other addresses");
      return url_task(*url);
    }
    if (!pull_.sha256.empty())
      throw ReferenceError("--sha256 is for URLs; the hub names the checksum of hf: models itself");
    return hub_task(std::get<HubReference>(reference));
  }

  Task url_task(const UrlReference& url) const {
    Task task{.name = split_name(url.file_name).stem,
              .label = file_error::file_label(url.url.substr(0, url.url.find('?'))),
              .files = {}};
    if (split_name(url.file_name).n_parts > 1)
      throw PullError(task.label +
                      ": it is one part of a split model; only hf:OWNER/REPO pulls all parts together");
    Task::File& file = task.files.emplace_back();
    file.url = url.url;
    file.place = store_.place_of(url);
    file.origin.source = url.url.substr(0, url.url.find('?'));
    file.origin.sha256 = lower_case(pull_.sha256);
    return task;
  }

  DownloadOptions download_options(const std::string& url) {
    DownloadOptions options;
    options.url = url;
    options.request = {
        .token = token_, .endpoint = endpoint_, .certificates = trusted_certificates(environment_)};
    options.n_retries = pull_.n_retries;
    return options;
  }

  Task hub_task(const HubReference& reference) {
    token_ = hub_token(pull_.token_file, environment_);
    const std::string id = "hf:" + reference.id();
    const DownloadReport report{
        .progress = {},
        .note = [](const std::string& sentence) { std::fprintf(stderr, "hearthd: %s\n", sentence.c_str()); },
        .look = look};
    const std::string text =
        fetch_text(download_options(repository_url(endpoint_, reference)), report, id, kMostDescriptionBytes,
                   [&id](const TransferHead& head, bool had_token) {
                     return refusal_text(id, head.status, head.error_code, had_token);
                   });
    const HubRepository repository = parse_repository(text, id);
    if (!pull_.any_architecture && !repository.architecture.empty())
      require_architecture(id, repository.architecture);
    const ModelFilesOnHub model = chosen_model(models_in(repository.files), reference);
    const std::string revision = !repository.commit.empty()   ? repository.commit
                                 : reference.revision.empty() ? "main"
                                                              : reference.revision;
    Task task{.name = fs::path(model.name).filename().string(), .label = id, .files = {}};
    for (const HubFile& part : model.parts) {
      task.files.push_back({.url = file_url(endpoint_, reference, revision, part.path),
                            .place = store_.place_of(reference, part.path),
                            .origin = {.source = id,
                                       .revision = reference.revision,
                                       .commit = repository.commit,
                                       .file = part.path,
                                       .sha256 = part.sha256,
                                       .size = part.size,
                                       .pulled = {}}});
    }
    return task;
  }

  static void require_architecture(const std::string& id, const std::string& architecture) {
    const std::span<const Architecture> known = architectures();
    if (std::ranges::any_of(known, [&](const Architecture& one) { return one.name == architecture; })) return;
    throw PullError(id + ": the hub says that its architecture is " + file_error::quoted(architecture) +
                    ", which Hearth does not run (docs/models.md); --any-architecture pulls it anyway");
  }

  /// Returns the model's path if all its files are present and equal those on the hub.
  std::optional<fs::path> what_is_there(const Task& task) {
    std::error_code error;
    for (const Task::File& file : task.files) {
      if (!fs::exists(file.place, error)) return std::nullopt;
      if (!is_same(file)) {
        if (!std::exchange(said_other_, true)) {
          std::fprintf(stderr,
                       "hearthd: %s has a different %s than the one here; it replaces it when complete\n",
                       task.label.c_str(), file.place.filename().c_str());
        }
        return std::nullopt;
      }
    }
    std::fprintf(stderr, "hearthd: %s is here already: %s\n", task.name.c_str(),
                 task.files.front().place.c_str());
    return task.files.front().place;
  }

  bool is_same(const Task::File& file) {
    std::error_code error;
    const std::optional<ModelOrigin> origin = store_.origin_of_file(file.place);
    const uint64_t bytes = fs::file_size(file.place, error);
    if (origin && origin->source != file.origin.source) {
      throw PullError(file_error::file_label(file.place.string()) + " is here already, and came from " +
                      file_error::file_label(origin->source) +
                      "; remove it first (hearthd rm), or name another folder with --models");
    }
    if (origin && origin->size != bytes) return false;
    if (file.origin.sha256.empty())
      return origin.has_value() && (file.origin.size == 0 || file.origin.size == bytes);
    if (origin) return origin->sha256 == file.origin.sha256;
    // A file without a recorded origin was copied here by the user, so its size and checksum are compared
    // with those on the hub.
    if (file.origin.size != 0 && file.origin.size != bytes) return false;
    std::fprintf(stderr, "hearthd: %s is here; comparing its checksum\n", file.place.filename().c_str());
    const UniqueFd fd(::open(file.place.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return false;
    Sha256Stream hash;
    hash_file(fd.get(), bytes, look, hash);
    if (hex_text(hash.finish()) != file.origin.sha256) return false;
    note_origin(file);
    return true;
  }

  void note_origin(const Task::File& file) {
    ModelOrigin origin = file.origin;
    origin.pulled = now_text();
    std::error_code error;
    origin.size = fs::file_size(file.place, error);
    try {
      store_.write_origin(file.place, origin);
    } catch (const std::runtime_error& failed) {  // ignored: the model is complete and in place
      std::fprintf(stderr, "hearthd: warning: its origin could not be noted: %s\n", failed.what());
    }
  }

  /// Throws PullError if the path exists but is not a regular file, or if one of its folders exists as a
  /// file.
  static void require_place(const fs::path& place) {
    std::error_code error;
    if (fs::exists(place, error) && !fs::is_regular_file(place, error))
      throw PullError(file_error::file_label(place.string()) +
                      " is not a plain file; move it away, or name another folder with --models");
    fs::path folder = place.parent_path();
    while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
    if (!fs::is_directory(folder, error))
      throw PullError(file_error::file_label(folder.string()) +
                      " is not a folder; move it away, or name another folder with --models");
  }

  fs::path load(Task task) {
    for (const Task::File& file : task.files) require_place(file.place);
    PullProgress progress(task.name);
    // Lock first. If two downloads run at the same time, the second one then finds the files of the first.
    std::vector<PartFile> parts;
    try {
      for (const Task::File& file : task.files) parts.push_back(locked(file, progress));
      if (const std::optional<fs::path> there = pulled_meanwhile(task, parts)) return *there;
      require_room(task, parts);
      return load_locked(task, parts, progress);
    } catch (...) {  // the next download cannot use part files without bytes
      for (PartFile& part : parts)
        if (part.length() == 0) part.remove();
      tidy(parts);
      throw;
    }
  }

  fs::path load_locked(Task& task, std::vector<PartFile>& parts, PullProgress& progress) {
    progress.note("pulling " + task.name + " (" + files_text(task.files.size(), task.bytes()) + ") to " +
                  task.files.front().place.parent_path().string());
    uint64_t before = 0, loaded_before = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      uint64_t loaded_now = 0;
      const DownloadReport report{.progress =
                                      [&](uint64_t there, uint64_t size, uint64_t loaded) {
                                        loaded_now = loaded;
                                        progress.update(before + there, std::max(task.bytes(), size),
                                                        loaded_before + loaded);
                                      },
                                  .note = [&](const std::string& sentence) { progress.note(sentence); },
                                  .look = look};
      DownloadOptions options = download_options(task.files[i].url);
      options.size = task.files[i].origin.size;
      options.sha256 = task.files[i].origin.sha256;
      const std::string what = task.label + (parts.size() > 1 ? ", part " + std::to_string(i + 1) : "");
      load_part(options, report, what, parts[i], task, progress);
      task.files[i].origin.sha256 = parts[i].state().sha256;
      before += parts[i].state().size;
      loaded_before += loaded_now;
    }
    require_model(task, parts);
    // The first part is moved last, because the model is opened through it.
    for (size_t i = parts.size(); i-- > 0;) {
      parts[i].move_to(task.files[i].place);
      note_origin(task.files[i]);
    }
    tidy(parts);
    progress.note(task.name + " is there: " + task.files.front().place.string());
    return task.files.front().place;
  }

  static void load_part(const DownloadOptions& options, const DownloadReport& report, const std::string& what,
                        PartFile& part, const Task& task, PullProgress& progress) try {
    download(options, report, what, part);
  } catch (const PullInterrupted&) {
    progress.note("stopped; " + bytes_text(static_cast<double>(part.length())) + " of " + task.name +
                  " are kept, and the next pull continues from them (hearthd rm deletes them)");
    throw;
  }

  PartFile locked(const Task::File& file, PullProgress& progress) const {
    bool said = false;
    return PartFile(store_.partial_of(file.place), [&] {
      if (!said)
        progress.note("another hearthd is pulling " + file.place.filename().string() + "; waiting for it");
      said = true;
      look();
      std::this_thread::sleep_for(kLockTick);
    });
  }

  /// Returns the model's path if another process has completed the download while this one waited for the
  /// locks.
  std::optional<fs::path> pulled_meanwhile(const Task& task, std::vector<PartFile>& parts) {
    std::optional<fs::path> there = what_is_there(task);
    if (!there) return std::nullopt;
    for (PartFile& part : parts) part.remove();
    tidy(parts);
    return there;
  }

  void require_room(const Task& task, const std::vector<PartFile>& parts) const {
    uint64_t wanted = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      struct stat status {};
      const uint64_t had =
          ::fstat(parts[i].fd(), &status) == 0 ? static_cast<uint64_t>(status.st_blocks) * 512 : 0;
      wanted += task.files[i].origin.size > had ? task.files[i].origin.size - had : 0;
    }
    require_space(store_.folder(), wanted, task.name);
  }

  /// Opens the downloaded files in the same way as the engine. Deletes them if they are not a model.
  void require_model(const Task& task, std::vector<PartFile>& parts) {
    try {
      const ModelFile file = ModelFile::open(parts.front().path());
      try {
        read_model_spec(file);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "hearthd: warning: %s\n", error.what());
      }
    } catch (const ModelFileError& error) {
      for (PartFile& part : parts) part.remove();
      tidy(parts);
      throw PullError(task.label + ": the downloaded file is not a model and was deleted: " + error.what());
    }
  }

  /// Removes folders of .partial that have become empty.
  void tidy(const std::vector<PartFile>& parts) const {
    std::error_code error;
    for (const PartFile& part : parts) {
      for (fs::path folder = part.path().parent_path();
           folder != store_.folder() && folder.has_relative_path(); folder = folder.parent_path())
        if (!fs::remove(folder, error)) break;
    }
  }

  const PullOptions& pull_;
  const ModelStore store_;
  const Environment& environment_;
  std::string endpoint_, token_;
  bool said_other_ = false;
};

}  // namespace

fs::path pull_model(const PullOptions& pull, const Options& options, const Environment& environment) {
  return Pull(pull, options, environment).run();
}

PullSignals::PullSignals() {
  noted_signal = 0;
  std::signal(SIGINT, note_pull_signal);
  std::signal(SIGTERM, note_pull_signal);
  std::signal(SIGPIPE, SIG_IGN);  // a closed connection causes an error of the request instead of a signal
  std::signal(SIGXFSZ, SIG_IGN);  // exceeding the file size limit causes a write error instead of a signal
}

PullSignals::~PullSignals() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

int PullSignals::signal() { return noted_signal; }

}  // namespace hearth
