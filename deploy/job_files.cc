#include "deploy/job_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <span>
#include <sstream>

#include "deploy/bundle.h"
#include "protocol/program/cluster_files.h"
#include "protocol/program/program_files.h"

namespace mobula::internal::deploy {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view magic = "mobula job files 1\n";
constexpr std::size_t max_path = 4096;
constexpr std::size_t largest_named = 5;
constexpr const char* ignore_file = ".mobulaignore";

// Kinds of entries, as stored in the file.
constexpr char is_dir = 'd';
constexpr char is_file = 'f';
constexpr char is_executable = 'x';
constexpr char is_link = 'l';
constexpr char is_end = 'e';

struct Entry {
  char kind = is_file;
  std::string name{};  // in the package
  std::string path{};  // on this machine
  std::string target{};
  std::uint64_t size = 0;
};

Failure refused(const std::string& path, const std::string& why) {
  return failure(ErrorCode::invalid_argument, fmt::format("{}: {}", path, why));
}

std::string shown(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }, '?');
  return text;
}

std::string size_text(std::uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / 0x1p20);
}

// Components separated by slashes: not empty, not "." or "..", no control characters.
bool is_plain_path(std::string_view path) {
  if (path.empty() || path.size() > max_path) return false;
  if (std::ranges::any_of(path,
                          [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }))
    return false;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const auto part = path.substr(at, end - at);
    if (part.empty() || part == "." || part == "..") return false;
    at = end + 1;
  }
  return true;
}

// Returns true if a link stays below the first component of its path. A target must go up first and
// then down, because ".." after a name may leave through another link.
bool stays_within(std::string_view link, std::string_view target) {
  // directories between the first component and the link
  auto depth = std::ranges::count(link, '/') - 1;
  while (target.starts_with("../") || target == "..") {
    if (--depth < 0) return false;
    target.remove_prefix(std::min<std::size_t>(3, target.size()));
  }
  return target.empty() || target == "." || is_plain_path(target);
}

// ---- packing -----------------------------------------------------------------------------------

class Packer {
 public:
  explicit Packer(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  Result<JobFiles> pack(const JobFilesSource& source) {
    if (!source.directory.empty()) {
      if (auto read = read_ignored(source.directory); !read) return read.error();
      entries_.push_back({is_dir, "work"});
      if (auto walked = walk(source.directory, "work"); !walked) return walked.error();
    }
    // Explicit libraries precede others of equal name.
    for (const auto& library : source.libraries) {
      if (auto added = add_library(library); !added) return added.error();
    }
    for (const auto& program : source.programs) {
      if (auto added = add_program(program); !added) return added.error();
    }
    if (auto fits = check_size(); !fits) return fits.error();
    // Directories precede their contents, and links are last, so nothing is unpacked through a
    // link.
    std::ranges::sort(entries_, [](const Entry& a, const Entry& b) {
      return std::pair(a.kind == is_link, std::string_view(a.name)) <
             std::pair(b.kind == is_link, std::string_view(b.name));
    });
    return write();
  }

 private:
  Result<void> read_ignored(const std::string& directory) {
    ignored_ = {".git", ignore_file};
    std::error_code code;
    const std::string path = directory + "/" + ignore_file;
    if (!fs::exists(path, code)) return {};
    const auto text = read_file(path);
    if (!text) return text.error();
    std::istringstream lines(*text);
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
      if (line.empty() || line.front() == '#') continue;
      if (line.front() == '!') {
        return refused(fmt::format("{}:{}", path, number),
                       "a pattern that takes back another is not known here");
      }
      ignored_.push_back(line);
    }
    return {};
  }

  // `name` is relative to the directory.
  bool is_ignored(const std::string& name, bool directory) const {
    return std::ranges::any_of(ignored_, [&](std::string pattern) {
      const bool directories_alone = pattern.ends_with('/');
      if (directories_alone) pattern.pop_back();
      if (directories_alone && !directory) return false;
      const bool by_path = pattern.find('/') != std::string::npos;
      if (pattern.starts_with('/')) pattern.erase(0, 1);
      const std::string& matched = by_path ? name : name.substr(name.rfind('/') + 1);
      return ::fnmatch(pattern.c_str(), matched.c_str(), by_path ? FNM_PATHNAME : 0) == 0;
    });
  }

  Result<void> walk(const std::string& directory, const std::string& name) {
    std::error_code code;
    fs::directory_iterator at(directory, code);
    for (; !code && at != fs::directory_iterator(); at.increment(code)) {
      const std::string path = at->path().string();
      const std::string in_package = name + "/" + at->path().filename().string();
      if (auto added = add(path, in_package); !added) return added;
      if (entries_.size() > max_job_files_entries) {
        return failure(ErrorCode::resource_exhausted,
                       fmt::format("{}: has more than {} entries; name what need not travel in {}",
                                   name, max_job_files_entries, ignore_file));
      }
    }
    if (code) return refused(shown(directory), "cannot be read: " + code.message());
    return {};
  }

  Result<void> add(const std::string& path, const std::string& name) {
    struct stat seen {};
    if (::lstat(path.c_str(), &seen) != 0) return errno_failure("stat " + shown(path), errno);
    const std::string from_dir = name.substr(name.find('/') + 1);
    if (is_ignored(from_dir, S_ISDIR(seen.st_mode))) return {};
    if (!is_plain_path(name))
      return refused(shown(path), "its name has control characters or is too long");
    if (S_ISDIR(seen.st_mode)) {
      entries_.push_back({is_dir, name, path});
      return walk(path, name);
    }
    if (S_ISLNK(seen.st_mode)) return add_link(path, name);
    if (!S_ISREG(seen.st_mode))
      return refused(shown(path),
                     "is neither a file, a directory, nor a link, and cannot be "
                     "sent");
    add_file(path, name, seen);
    return {};
  }

  void add_file(const std::string& path, const std::string& name, const struct stat& seen) {
    const char kind = (seen.st_mode & S_IXUSR) != 0 ? is_executable : is_file;
    entries_.push_back({kind, name, path, {}, static_cast<std::uint64_t>(seen.st_size)});
  }

  Result<void> add_link(const std::string& path, const std::string& name) {
    std::error_code code;
    const std::string target = fs::read_symlink(path, code).string();
    if (code) return refused(shown(path), "cannot be read: " + code.message());
    if (!stays_within(name, target)) {
      return refused(shown(path),
                     "is a link to " + shown(target) +
                         ", which is not below the directory by a plain path; name it in " +
                         ignore_file + " or put the file in its place");
    }
    entries_.push_back({is_link, name, path, target, target.size()});
    return {};
  }

  Result<void> add_program(const std::string& path) {
    struct stat seen {};
    if (::stat(path.c_str(), &seen) != 0) return refused(shown(path), std::strerror(errno));
    if (!S_ISREG(seen.st_mode)) return refused(shown(path), "is no file");
    const std::string name = "bin/" + fs::path(path).filename().string();
    if (!is_plain_path(name))
      return refused(shown(path), "its name has control characters or is too long");
    if (!names_.insert(name).second)
      return refused(shown(path), "another program that travels has the same name");
    if (names_.size() == 1) entries_.push_back({is_dir, "bin"});
    add_file(path, name, seen);
    entries_.back().kind = is_executable;
    return add_needed(path);
  }

  // A library that a program opens by name, which ldd cannot list.
  Result<void> add_library(const std::string& path) {
    struct stat seen {};
    if (::stat(path.c_str(), &seen) != 0) return refused(shown(path), std::strerror(errno));
    if (!S_ISREG(seen.st_mode)) return refused(shown(path), "is no file");
    const std::string library = fs::path(path).filename().string();
    if (!is_plain_path(library))
      return refused(shown(path), "its name has control characters or is too long");
    if (libraries_.contains(library))
      return refused(shown(path), "another library that travels has the same name");
    if (libraries_.empty()) entries_.push_back({is_dir, "lib"});
    libraries_.insert(library);
    add_file(path, "lib/" + library, seen);
    return add_needed(path);
  }

  Result<void> add_needed(const std::string& path) {
    struct stat seen {};
    for (const auto& [library, file] : libraries_of(path)) {
      if (libraries_.empty()) entries_.push_back({is_dir, "lib"});
      if (!libraries_.insert(library).second) continue;
      if (::stat(file.c_str(), &seen) != 0) return refused(shown(file), std::strerror(errno));
      add_file(file, "lib/" + library, seen);
    }
    return {};
  }

  Result<void> check_size() const {
    std::uint64_t sum = 0;
    for (const auto& each : entries_) sum += each.size;
    if (sum <= max_bytes_) return {};
    std::vector<const Entry*> largest;
    for (const auto& each : entries_) {
      if (each.kind == is_file || each.kind == is_executable) largest.push_back(&each);
    }
    std::ranges::sort(largest, [](const Entry* a, const Entry* b) {
      return std::pair(b->size, a->name) < std::pair(a->size, b->name);
    });
    std::string names;
    for (std::size_t i = 0; i < std::min(largest_named, largest.size()); ++i) {
      names += fmt::format("{} {} ({})", i == 0 ? "" : ",", largest[i]->path,
                           size_text(largest[i]->size));
    }
    return failure(ErrorCode::resource_exhausted,
                   fmt::format("the files of the job are {}, and {} may travel; name what need not "
                               "in {}; the largest are{}",
                               size_text(sum), size_text(max_bytes_), ignore_file, names));
  }

  Result<JobFiles> write() {
    std::error_code code;
    std::string temporary = (fs::temp_directory_path(code) / "mobula-files-XXXXXX").string();
    files_.file = Fd(::mkostemp(temporary.data(), O_CLOEXEC));
    if (!files_.file) return errno_failure("make a file " + temporary, errno);
    ::unlink(temporary.c_str());
    put(std::as_bytes(std::span(magic)));
    for (const auto& each : entries_) {
      put_head(each);
      if (each.kind == is_link) put(std::as_bytes(std::span(each.target)));
      if (each.kind != is_file && each.kind != is_executable) continue;
      if (auto copied = put_file(each); !copied) return copied.error();
    }
    put_head({is_end, ""});
    if (fault_ != 0) return errno_failure("write " + temporary, fault_);
    files_.hash = hash_.end();
    return std::move(files_);
  }

  void put_head(const Entry& entry) {
    const std::string line = fmt::format("{} {} {}\n", entry.kind, entry.name.size(), entry.size);
    put(std::as_bytes(std::span(line)));
    put(std::as_bytes(std::span(entry.name)));
  }

  Result<void> put_file(const Entry& entry) {
    const Fd file(::open(entry.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    if (!file)
      return refused(shown(entry.path), std::string("cannot be read: ") + std::strerror(errno));
    std::uint64_t left = entry.size;
    std::vector<std::byte> part(1u << 18);
    while (true) {
      const ssize_t size = ::read(file.get(), part.data(), part.size());
      if (size < 0 && errno == EINTR) continue;
      if (size < 0)
        return refused(shown(entry.path), std::string("cannot be read: ") + std::strerror(errno));
      if (static_cast<std::uint64_t>(size) > left || (size == 0 && left > 0)) {
        return refused(shown(entry.path), "has changed while it was packed");
      }
      if (size == 0) return {};
      left -= static_cast<std::uint64_t>(size);
      put(std::span(part).first(static_cast<std::size_t>(size)));
    }
  }

  void put(std::span<const std::byte> bytes) {
    hash_.add(bytes);
    files_.size_bytes += bytes.size();
    while (!bytes.empty() && fault_ == 0) {
      const ssize_t size = ::write(files_.file.get(), bytes.data(), bytes.size());
      if (size < 0 && errno == EINTR) continue;
      if (size < 0) fault_ = errno;
      if (size > 0) bytes = bytes.subspan(static_cast<std::size_t>(size));
    }
  }

  const std::uint64_t max_bytes_;
  std::vector<std::string> ignored_;
  std::vector<Entry> entries_;
  std::set<std::string> names_;
  std::set<std::string> libraries_;
  JobFiles files_;
  RunningHash hash_;
  int fault_ = 0;
};

// ---- unpacking ---------------------------------------------------------------------------------

class Unpacker {
 public:
  Unpacker(int file, std::string directory) : file_(file), directory_(std::move(directory)) {}

  Result<void> unpack() {
    if (::lseek(file_, 0, SEEK_SET) < 0) return errno_failure("read a job's files", errno);
    std::string begin(magic.size(), '\0');
    if (!take(begin.data(), begin.size()) || begin != magic) return corrupt("begin otherwise");
    if (::mkdir(directory_.c_str(), 0700) != 0) return errno_failure("make " + directory_, errno);
    for (std::size_t count = 0; count <= max_job_files_entries; ++count) {
      Entry entry;
      if (!take_head(entry)) return corrupt("are cut short");
      if (entry.kind == is_end) return {};
      if (!is_plain_path(entry.name)) return corrupt("have the name '" + shown(entry.name) + "'");
      if (auto made = make(entry); !made) return made;
    }
    return corrupt("have too many entries");
  }

 private:
  Failure corrupt(const std::string& why) const {
    return failure(ErrorCode::corrupt, "the job's files " + why);
  }

  bool take(void* to, std::size_t size) {
    auto* at = static_cast<char*>(to);
    while (size > 0) {
      const ssize_t count = ::read(file_, at, size);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      at += count;
      size -= static_cast<std::size_t>(count);
    }
    return true;
  }

  // "KIND NAMESIZE SIZE\n" and the name.
  bool take_head(Entry& entry) {
    std::string line;
    for (char c = 0; line.size() < 64; line += c) {
      if (!take(&c, 1)) return false;
      if (c == '\n') break;
    }
    std::istringstream words(line);
    std::size_t name_size = 0;
    if (!(words >> entry.kind >> name_size >> entry.size) || name_size > max_path) return false;
    entry.name.resize(name_size);
    return take(entry.name.data(), name_size);
  }

  Result<void> make(const Entry& entry) {
    const std::string path = directory_ + "/" + entry.name;
    // The directory must have been created here, so that nothing is created through a link.
    const auto slash = entry.name.rfind('/');
    if (slash != std::string::npos && !directories_.contains(entry.name.substr(0, slash)))
      return corrupt("leave out a directory");
    switch (entry.kind) {
      case is_dir:
        if (::mkdir(path.c_str(), 0700) != 0) return errno_failure("make " + path, errno);
        directories_.insert(entry.name);
        return {};
      case is_link: return make_link(entry, path);
      case is_file:
      case is_executable: return make_file(entry, path);
      default: return corrupt(fmt::format("have an entry of the kind '{}'", shown({entry.kind})));
    }
  }

  Result<void> make_link(const Entry& entry, const std::string& path) {
    std::string target(std::min<std::size_t>(entry.size, max_path), '\0');
    if (entry.size > max_path || !take(target.data(), target.size()))
      return corrupt("are cut short");
    if (target.empty() || !stays_within(entry.name, target))
      return corrupt("have a link that leads out of them");
    if (::symlink(target.c_str(), path.c_str()) != 0) return errno_failure("make " + path, errno);
    return {};
  }

  Result<void> make_file(const Entry& entry, const std::string& path) {
    const mode_t mode = entry.kind == is_executable ? 0700 : 0600;
    const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (!file) return errno_failure("make " + path, errno);
    std::vector<char> part(1u << 18);
    for (std::uint64_t left = entry.size; left > 0;) {
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left, part.size()));
      if (!take(part.data(), size)) return corrupt("are cut short");
      for (std::size_t at = 0; at < size;) {
        const ssize_t count = ::write(file.get(), part.data() + at, size - at);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return errno_failure("write " + path, errno);
        at += static_cast<std::size_t>(count);
      }
      left -= size;
    }
    return {};
  }

  const int file_;
  const std::string directory_;
  std::set<std::string> directories_;
};

}  // namespace

Result<JobFiles> pack_job_files(const JobFilesSource& source, std::uint64_t max_bytes) {
  return Packer(max_bytes).pack(source);
}

Result<void> unpack_job_files(int file, const std::string& directory) {
  return Unpacker(file, directory).unpack();
}

}  // namespace mobula::internal::deploy
