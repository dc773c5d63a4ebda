#include "collective/words.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mobula::internal::collective {
namespace {

constexpr std::size_t header_bytes = 4;
constexpr std::size_t max_word_bytes = 16 * 1024;
constexpr std::size_t max_text_bytes = 2048;
constexpr std::size_t max_waiting = 64;  // words to one member that does not take them

void put(std::vector<std::byte>& to, std::uint64_t number, unsigned bytes = 8) {
  for (unsigned i = 0; i < bytes; ++i) to.push_back(static_cast<std::byte>(number >> (8 * i)));
}

std::optional<std::uint64_t> take(std::span<const std::byte>& from, unsigned bytes = 8) {
  if (from.size() < bytes) return std::nullopt;
  std::uint64_t number = 0;
  for (unsigned i = 0; i < bytes; ++i) number |= static_cast<std::uint64_t>(from[i]) << (8 * i);
  from = from.subspan(bytes);
  return number;
}

std::vector<std::byte> encode(const Word& word) {
  std::vector<std::byte> bytes;
  put(bytes, static_cast<std::uint64_t>(word.kind), 1);
  put(bytes, word.number);
  if (word.kind == WordKind::meeting || word.kind == WordKind::offer) {
    const auto operation = encode(word.operation);
    put(bytes, operation.size(), 2);
    bytes.insert(bytes.end(), operation.begin(), operation.end());
    bytes.insert(bytes.end(), word.operand.begin(), word.operand.end());
  } else if (word.kind == WordKind::begin) {
    bytes.insert(bytes.end(), word.operand.begin(), word.operand.end());
  } else if (word.kind == WordKind::broken) {
    put(bytes, word.ranks.size(), 2);
    for (const auto rank : word.ranks) put(bytes, rank, 2);
    for (const char each : word.text.substr(0, max_text_bytes)) bytes.push_back(static_cast<std::byte>(each));
  }
  return bytes;
}

Result<Word> decode(std::span<const std::byte> bytes) {
  const Failure nonsense = failure(ErrorCode::corrupt, "it says what no member of a group says");
  const auto kind = take(bytes, 1);
  const auto number = take(bytes);
  if (!kind || !number || *kind < 1 || *kind > 6) return nonsense;
  Word word;
  word.kind = static_cast<WordKind>(*kind);
  word.number = *number;
  if (word.kind == WordKind::meeting || word.kind == WordKind::offer) {
    const auto length = take(bytes, 2);
    if (!length || *length > bytes.size()) return nonsense;
    auto operation = decode_operation(bytes.first(*length));
    if (!operation) return operation.error();
    word.operation = std::move(*operation);
    bytes = bytes.subspan(*length);
    word.operand.assign(bytes.begin(), bytes.end());
  } else if (word.kind == WordKind::begin) {
    word.operand.assign(bytes.begin(), bytes.end());
  } else if (word.kind == WordKind::broken) {
    const auto count = take(bytes, 2);
    if (!count || *count > max_members) return nonsense;
    for (std::uint64_t i = 0; i < *count; ++i) {
      const auto rank = take(bytes, 2);
      if (!rank || *rank >= max_members) return nonsense;
      word.ranks.push_back(static_cast<std::uint32_t>(*rank));
    }
    if (bytes.size() > max_text_bytes) return nonsense;
    word.text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return word;
}

}  // namespace

Words::Words(Fd socket, const WireKeys& keys) : socket_(std::move(socket)) {
  if (keys.send) sealer_ = std::make_unique<Sealer>(*keys.send);
  if (keys.receive) opener_ = std::make_unique<Opener>(*keys.receive);
}

Result<void> Words::say(const Word& word) {
  if (out_.size() >= max_waiting) return failure(ErrorCode::resource_exhausted, "it does not take what is said to it");
  const auto plain = encode(word);
  std::vector<std::byte> frame;
  put(frame, plain.size() + (sealer_ ? seal_tag_size : 0), header_bytes);
  if (sealer_) {
    frame.resize(header_bytes + plain.size() + seal_tag_size);
    const std::span<std::byte> all(frame);
    sealer_->seal(all.first(header_bytes), plain, all.subspan(header_bytes));
  } else {
    frame.insert(frame.end(), plain.begin(), plain.end());
  }
  out_.push_back(std::move(frame));
  return flush();
}

Result<void> Words::flush() {
  while (!out_.empty()) {
    const auto& first = out_.front();
    const auto count = ::send(socket_.get(), first.data() + sent_, first.size() - sent_, MSG_NOSIGNAL);
    if (count < 0 && is_for_later(errno)) return {};
    if (count < 0) return failure(ErrorCode::unavailable, std::string("the connection has broken: ") + std::strerror(errno));
    sent_ += static_cast<std::size_t>(count);
    if (sent_ < first.size()) continue;
    out_.pop_front();
    sent_ = 0;
  }
  return {};
}

Result<std::optional<Word>> Words::hear() {
  for (;;) {
    std::size_t wanted = header_bytes;
    if (filled_ >= header_bytes) {
      std::span<const std::byte> header = std::span(in_).first(header_bytes);
      const auto length = static_cast<std::size_t>(*take(header, header_bytes));
      if (length == 0 || length > max_word_bytes) return failure(ErrorCode::corrupt, "a word of a length that no member says");
      wanted += length;
    }
    if (in_.size() < wanted) in_.resize(wanted);
    if (filled_ == wanted && wanted > header_bytes) break;
    const auto count = ::recv(socket_.get(), in_.data() + filled_, wanted - filled_, 0);
    if (count < 0 && is_for_later(errno)) return std::optional<Word>();
    if (count <= 0) return failure(ErrorCode::unavailable, "its process has ended, or left the group");
    filled_ += static_cast<std::size_t>(count);
  }
  const auto all = std::span<const std::byte>(in_).first(filled_);
  const auto body = all.subspan(header_bytes);
  filled_ = 0;
  std::vector<std::byte> opened;
  if (opener_) {
    if (body.size() < seal_tag_size) return failure(ErrorCode::corrupt, "a word without its seal");
    opened.resize(body.size() - seal_tag_size);
    if (auto good = opener_->open(all.first(header_bytes), body, opened); !good) return good.error();
  }
  auto word = decode(opener_ ? std::span<const std::byte>(opened) : body);
  if (!word) return word.error();
  return std::optional<Word>(std::move(*word));
}

void Words::finish() {
  (void)flush();
  ::shutdown(socket_.get(), SHUT_WR);
}

}  // namespace mobula::internal::collective
