// Options of the commands `events` and `timeline`.
// Thread: main, at start.
#pragma once

#include "cli/command_line.h"
#include "cli/flag_texts.h"

namespace CLI {
class App;
}

namespace mobula::internal::cli {

void add_event_options(CLI::App& events, CommandLine& line);
void add_timeline_options(CLI::App& timeline, CommandLine& line, FlagTexts& texts);

}  // namespace mobula::internal::cli
