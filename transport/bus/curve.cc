#include "transport/bus/curve.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include <array>
#include <cerrno>
#include <optional>

#include "base/fd.h"

namespace mobula::internal {
namespace {

constexpr std::string_view public_label = "curve-public ";
constexpr std::string_view secret_label = "curve-secret ";
constexpr std::size_t label_size = public_label.size();
constexpr std::size_t line_size = label_size + curve_key_size + 1;

std::string text_of(const CurveKeys& keys) {
  return fmt::format("{}{}\n{}{}\n", public_label, keys.public_key, secret_label, keys.secret_key);
}

std::optional<CurveKeys> keys_of(std::string_view text) {
  if (text.size() != 2 * line_size || !text.starts_with(public_label) ||
      !text.substr(line_size).starts_with(secret_label)) {
    return std::nullopt;
  }
  CurveKeys keys{std::string(text.substr(label_size, curve_key_size)),
                 std::string(text.substr(line_size + label_size, curve_key_size))};
  std::array<char, curve_key_size + 1> derived{};
  if (!is_curve_key(keys.public_key) || !is_curve_key(keys.secret_key) ||
      zmq_curve_public(derived.data(), keys.secret_key.c_str()) != 0 ||
      keys.public_key != derived.data()) {
    return std::nullopt;
  }
  return keys;
}

// Removes its file on destruction.
class PartialFile {
 public:
  explicit PartialFile(std::string path) : path_(std::move(path)) {}
  ~PartialFile() { ::unlink(path_.c_str()); }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  const char* path() const { return path_.c_str(); }

 private:
  const std::string path_;
};

}  // namespace

bool curve_available() { return zmq_has("curve") == 1; }

bool is_curve_key(std::string_view key) {
  if (key.size() != curve_key_size || key.find('\0') != std::string_view::npos) return false;
  std::array<std::uint8_t, 32> binary{};
  return zmq_z85_decode(binary.data(), std::string(key).c_str()) != nullptr;
}

Result<std::string> public_key_of(const std::string& secret_key) {
  std::array<char, curve_key_size + 1> derived{};
  if (!is_curve_key(secret_key) || zmq_curve_public(derived.data(), secret_key.c_str()) != 0) {
    return failure(ErrorCode::invalid_argument, "the given secret key is invalid");
  }
  return std::string(derived.data());
}

Result<CurveKeys> CurveKeys::generate() {
  std::array<char, curve_key_size + 1> public_key{};
  std::array<char, curve_key_size + 1> secret_key{};
  if (zmq_curve_keypair(public_key.data(), secret_key.data()) != 0) {
    return failure(
        ErrorCode::unavailable,
        "make a CURVE key pair: this libzmq was built without CURVE; install one with it");
  }
  return CurveKeys{public_key.data(), secret_key.data()};
}

Result<CurveKeys> CurveKeys::load(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) return errno_failure(fmt::format("open the key file {}", path), errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    return errno_failure(fmt::format("look at the key file {}", path), errno);
  }
  if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 077) != 0) {
    return failure(ErrorCode::permission_denied,
                   fmt::format("read the key file {}: it must be a file of uid {} with mode 0600, "
                               "and is one of uid {} with mode {:04o}; others may have read it: "
                               "make a fresh key",
                               path, ::geteuid(), status.st_uid, status.st_mode & 07777));
  }
  std::array<char, 2 * line_size + 1> text{};
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  if (size < 0) return errno_failure(fmt::format("read the key file {}", path), errno);
  auto keys = keys_of(std::string_view(text.data(), static_cast<std::size_t>(size)));
  if (!keys) {
    return failure(
        ErrorCode::corrupt,
        fmt::format("the key file {} holds no CURVE key pair; restore it or remove it", path));
  }
  return *std::move(keys);
}

Result<void> CurveKeys::save(const std::string& path) const {
  const PartialFile partial(fmt::format("{}.{}.partial", path, ::getpid()));
  const Fd file(::open(partial.path(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return errno_failure(fmt::format("write the key file {}", path), errno);
  const std::string text = text_of(*this);
  if (::fchmod(file.get(), 0600) != 0 ||
      ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::fsync(file.get()) != 0) {
    return errno_failure(fmt::format("write the key file {}", path), errno);
  }
  // Unlike a rename, a link never replaces an existing key.
  if (::link(partial.path(), path.c_str()) != 0) {
    return errno_failure(fmt::format("write the key file {}", path), errno);
  }
  return {};
}

}  // namespace mobula::internal
