#include <mobula/detail/registry.h>

#include <mobula/detail/describe.h>

#include <link.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/mutex.h"

namespace mobula::detail {

struct Registry::Table {
  internal::Mutex mutex;
  std::vector<Entry*> entries MOBULA_GUARDED_BY(mutex);
  std::map<FunctionKey, Entry*> by_key MOBULA_GUARDED_BY(mutex);
  std::map<std::uintptr_t, Image> images MOBULA_GUARDED_BY(mutex);  // by load base
  std::size_t resolved MOBULA_GUARDED_BY(mutex) = 0;  // count of leading entries with keys
};

namespace {

// One loaded image: its base and the addresses that its segments cover.
struct Loaded {
  std::uintptr_t base = 0;
  std::uintptr_t first = 0;
  std::uintptr_t last = 0;
  std::string path;
};

int collect(dl_phdr_info* image, std::size_t, void* into) {
  auto& all = *static_cast<std::vector<Loaded>*>(into);
  Loaded loaded{.base = image->dlpi_addr, .first = ~std::uintptr_t{0}, .path = image->dlpi_name};
  for (int i = 0; i < image->dlpi_phnum; ++i) {
    const auto& segment = image->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const std::uintptr_t first = loaded.base + segment.p_vaddr;
    loaded.first = std::min(loaded.first, first);
    loaded.last = std::max(loaded.last, first + segment.p_memsz);
  }
  all.push_back(std::move(loaded));
  return 0;
}

std::vector<Loaded> loaded_images() {
  std::vector<Loaded> all;
  dl_iterate_phdr(&collect, &all);
  return all;
}

// Until the runtime assigns ids by content, the file name identifies a library.
RawId id_from_name(const std::string& path) {
  if (path.empty()) return {};
  const std::string_view name = std::string_view(path).substr(path.find_last_of('/') + 1);
  return {mix(mix_start, name), mix(mix(mix_start, "image"), name)};
}

ErrorRecord refusal(std::string text) {
  ErrorRecord record;
  record.kind = ErrorKind::invalid_request;
  record.message = std::move(text);
  return record;
}

}  // namespace

ResultSink::~ResultSink() = default;

Entry::Entry(const EntryMembers& members) : members_(members) { Registry::instance().add(*this); }

Entry::~Entry() { Registry::instance().remove(*this); }

bool Entry::is_streaming() const {
  return members_.description != nullptr && members_.description->items != nullptr;
}

std::optional<ErrorRecord> Entry::mismatch(const Invocation& call) const {
  if (call.arguments.size() != static_cast<std::size_t>(members_.parameters)) {
    return refusal("calling " + std::string(members_.name) + " with " +
                   std::to_string(call.arguments.size()) + " arguments: it has " +
                   std::to_string(members_.parameters) +
                   " parameters; caller and callee are not the same "
                   "program");
  }
  const bool fits = members_.kind == EntryKind::constructor ? call.created != nullptr
                    : members_.kind == EntryKind::method    ? call.self != nullptr && call.results
                                                            : call.results != nullptr;
  if (!fits)
    return refusal("calling " + std::string(members_.name) + " as a different kind of entry");
  return std::nullopt;
}

Outcome Entry::invoke(const Invocation& call) const {
  if (auto why = mismatch(call)) return {.error = std::move(why)};
  return members_.invoker(call);
}

Outcome only_declared(std::string_view method) {
  return {.error = refusal("calling " + std::string(method) +
                           ": this program has only its declaration (MOBULA_DECLARED_ONLY)")};
}

Registry::Registry() : table_(new Table) {}

Registry& Registry::instance() {
  // Static initializers of all images add entries in any order, and remove them at exit.
  static Registry* const process_wide = new Registry;
  return *process_wide;
}

void Registry::add(Entry& entry) {
  const internal::MutexLock lock(table_->mutex);
  table_->entries.push_back(&entry);
}

void Registry::remove(Entry& entry) {
  const internal::MutexLock lock(table_->mutex);
  const auto at = std::find(table_->entries.begin(), table_->entries.end(), &entry);
  if (at == table_->entries.end()) return;
  if (static_cast<std::size_t>(at - table_->entries.begin()) < table_->resolved) {
    std::erase_if(table_->by_key, [&entry](const auto& row) { return row.second == &entry; });
    --table_->resolved;
  }
  table_->entries.erase(at);
}

// Callers hold the lock. The declaration is in a public header, which has no annotations.
void Registry::resolve_all() MOBULA_NO_THREAD_SAFETY_ANALYSIS {
  Table& table = *table_;
  if (table.resolved == table.entries.size()) return;
  const std::vector<Loaded> images = loaded_images();
  for (; table.resolved < table.entries.size(); ++table.resolved) {
    Entry& entry = *table.entries[table.resolved];
    const auto address = reinterpret_cast<std::uintptr_t>(&entry);
    for (const Loaded& loaded : images) {
      if (address < loaded.first || address >= loaded.last) continue;
      const auto image =
          table.images
              .try_emplace(loaded.base, Image{loaded.base, loaded.path, id_from_name(loaded.path)})
              .first;
      entry.key_ = {image->second.id, address - loaded.base};
      table.by_key[entry.key_] = &entry;
    }
    entry.resolved_.store(true, std::memory_order_release);
  }
}

const Entry* Registry::find(const FunctionKey& key) {
  const internal::MutexLock lock(table_->mutex);
  resolve_all();
  const auto row = table_->by_key.find(key);
  return row == table_->by_key.end() ? nullptr : row->second;
}

FunctionKey Registry::key_of(const Entry& entry) {
  if (!entry.resolved_.load(std::memory_order_acquire)) {
    const internal::MutexLock lock(table_->mutex);
    resolve_all();
  }
  return entry.key_;
}

void Registry::add_key(const FunctionKey& key, const Entry& entry) {
  const internal::MutexLock lock(table_->mutex);
  resolve_all();
  const auto known = std::ranges::find(table_->entries, &entry);
  const bool is_full = table_->by_key.size() >= table_->entries.size() + most_added_keys;
  if (known != table_->entries.end() && !is_full) table_->by_key.emplace(key, *known);
}

std::vector<const Entry*> Registry::entries() {
  const internal::MutexLock lock(table_->mutex);
  return {table_->entries.begin(), table_->entries.end()};
}

std::vector<Image> Registry::images() {
  const internal::MutexLock lock(table_->mutex);
  resolve_all();
  std::vector<Image> all;
  for (const auto& [base, image] : table_->images) all.push_back(image);
  return all;
}

void Registry::name_image(std::uintptr_t base, RawId id) {
  const internal::MutexLock lock(table_->mutex);
  resolve_all();
  const auto image = table_->images.find(base);
  if (image == table_->images.end()) return;
  const RawId previous = std::exchange(image->second.id, id);
  std::map<FunctionKey, Entry*> renamed;
  for (auto& [key, entry] : table_->by_key) {
    const bool here =
        key.image == previous && reinterpret_cast<std::uintptr_t>(entry) - key.offset == base;
    if (here) entry->key_.image = id;
    renamed[here ? entry->key_ : key] = entry;
  }
  table_->by_key = std::move(renamed);
}

}  // namespace mobula::detail
