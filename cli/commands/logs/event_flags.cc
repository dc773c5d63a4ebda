#include "cli/commands/logs/event_flags.h"

#include <CLI/CLI.hpp>

#include <string>

#include "cli/flag_values.h"

namespace mobula::internal::cli {

void add_event_options(CLI::App& events, CommandLine& line) {
  events.add_option("--severity", line.events.severity,
                    "Lowest severity: debug, info, warning, error (default: info)");
  events.add_option("--kind", line.events.kind, "Kind of event, such as NODE_DIED, or 'NODE_*'");
  events.add_option("--since", line.events.since,
                    "Age such as 90s, 10m, 2h, or 1d, or a time such as 2026-11-24T02:33:12Z");
  events.add_option("--for,--about", line.events.id,
                    "Only events about this id or prefix of an id");
  events.add_option("--tail", line.tail, "Number of latest events")
      ->check(CLI::Range(1, 1'000'000));
  events.add_flag("-f,--follow", line.follow, "Print new events as they happen");
}

void add_timeline_options(CLI::App& timeline, CommandLine& line, FlagTexts& texts) {
  timeline.add_option("--output", line.output_file,
                      "File of the trace, or - for stdout (default: timeline-TIME.json)");
  timeline.add_option("-o,--format", texts.format,
                      std::string("Format of the report about the file: ") + output_formats_text);
  timeline.add_option("--job", line.subject, "Only this job: id, prefix, or name");
  timeline.add_option("--otlp", line.otlp_url,
                      "Send the calls to this OTLP/HTTP receiver instead of a file");
  timeline.add_flag("--follow", line.follow, "With --otlp: send new calls until Ctrl-C");
}

}  // namespace mobula::internal::cli
