#include "tune/report/event_file.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace mobula::internal::tune {
namespace {

constexpr std::array<std::uint32_t, 256> crc_table = [] {
  constexpr std::uint32_t polynomial = 0x82f63b78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0);
    table[i] = crc;
  }
  return table;
}();

template <class T>
std::string little_endian(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xff);
  return bytes;
}

std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

std::string record(const std::string& event) {
  const std::string length = little_endian(static_cast<std::uint64_t>(event.size()));
  return length + little_endian(masked_crc(length)) + event + little_endian(masked_crc(event));
}

// ---- protocol buffers

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  return bytes + static_cast<char>(value);
}

std::string double_field(int number, double value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return varint(static_cast<std::uint64_t>(number) << 3 | 1) + little_endian(bits);
}

std::string float_field(int number, double value) {
  const auto narrow = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &narrow, sizeof(bits));
  return varint(static_cast<std::uint64_t>(number) << 3 | 5) + little_endian(bits);
}

std::string bytes_field(int number, std::string_view bytes) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 2) + varint(bytes.size()) +
         std::string(bytes);
}

std::string integer_field(int number, std::int64_t value) {
  return varint(static_cast<std::uint64_t>(number) << 3) +
         varint(static_cast<std::uint64_t>(value));
}

// ---- files

std::string file_name(const std::string& directory, const StoredReport& first) {
  std::string path = fmt::format("{}/trial-{:06}", directory, first.trial);
  if (first.attempt > 1) path += fmt::format("/attempt-{}", first.attempt);
  return path;
}

Result<void> write_file(const std::string& directory, double wall_time_s,
                        const std::string& records) {
  std::error_code code;
  std::filesystem::create_directories(directory, code);
  if (code) return errno_failure("make directory " + directory, code.value());
  const std::string path =
      fmt::format("{}/events.out.tfevents.{:.0f}.mobula", directory, wall_time_s);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << event_file_header(wall_time_s) << records;
  file.close();
  if (file) return {};
  return errno_failure("write " + path, errno);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc = (crc >> 8) ^ crc_table[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  }
  return ~crc;
}

std::string event_file_header(double wall_time_s) {
  return record(double_field(1, wall_time_s) + bytes_field(3, "brain.Event:2"));
}

std::string scalar_record(double wall_time_s, std::int64_t step, const StoredMetrics& metrics) {
  std::string summary;
  for (const auto& [name, value] : metrics) {
    if (value.is_text()) continue;
    summary += bytes_field(1, bytes_field(1, name) + float_field(2, value.number()));
  }
  return record(double_field(1, wall_time_s) + integer_field(2, step) + bytes_field(5, summary));
}

Result<void> export_tensorboard(ExperimentReader& reader, const std::string& directory) {
  const auto trials = reader.trials();
  if (!trials) return trials.error();
  for (const auto& trial : *trials) {
    const auto reports = reader.reports(trial.trial);
    if (!reports) return reports.error();
    for (std::size_t begin = 0; begin < reports->size();) {
      const StoredReport& first = (*reports)[begin];
      std::string records;
      std::size_t end = begin;
      for (; end < reports->size() && (*reports)[end].attempt == first.attempt; ++end) {
        const StoredReport& each = (*reports)[end];
        records += scalar_record(static_cast<double>(each.time_ms) / 1000, each.step, each.metrics);
      }
      const double wall_time_s = static_cast<double>(first.time_ms) / 1000;
      if (auto done = write_file(file_name(directory, first), wall_time_s, records); !done) {
        return done;
      }
      begin = end;
    }
  }
  return {};
}

}  // namespace mobula::internal::tune
