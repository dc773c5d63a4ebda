#include "head/core/view/metrics_writer.h"

#include <algorithm>
#include <cmath>

#include "base/text/utf8.h"

namespace mobula::internal::head {

std::string MetricsWriter::label(std::string_view name, std::string_view value) {
  std::string text(name);
  text += "=\"";
  const bool is_plain = std::ranges::all_of(value, [](char c) { return c >= 0; });
  const std::string valid = is_plain ? std::string() : valid_utf8(value);
  for (const char c : is_plain ? value : std::string_view(valid)) {
    if (c == '\\' || c == '"') text += '\\';
    if (c == '\n') {
      text += "\\n";
    } else {
      text += c;
    }
  }
  return text + '"';
}

void MetricsWriter::histogram(std::string_view labels, const UseHistogram& counts,
                              std::uint64_t total_us) {
  const std::string before = labels.empty() ? std::string() : std::string(labels) + ",";
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < use_buckets; ++i) {
    sum += counts[i];
    const bool last = i + 1 == use_buckets;
    const std::string bound =
        last ? "+Inf" : fmt::format("{}", std::ldexp(1.0, static_cast<int>(i)) / 1000);
    write(name_, "_bucket", before + label("le", bound), sum);
  }
  write(name_, "_sum", labels, static_cast<double>(total_us) * 1e-6);
  write(name_, "_count", labels, sum);
}

}  // namespace mobula::internal::head
