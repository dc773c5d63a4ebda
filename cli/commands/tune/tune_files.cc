#include "cli/commands/tune/tune_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>

#include "base/fd.h"
#include "cli/exit_code.h"
#include "cli/head_query.h"
#include "cli/output/log_lines.h"
#include "cli/output/write_all.h"
#include "tune/report/event_file.h"
#include "tune/report/optuna_export.h"
#include "tune/report/optuna_import.h"
#include "tune/report/report_page.h"
#include "tune/report/trial_export.h"
#include "tune/store/experiment_lock.h"

namespace mobula::internal::cli {
namespace {

using tune::ExperimentLocation;
using tune::ExperimentReader;

// A file that appears under its name when it is complete, or stdout for "-".
class OutputFile {
 public:
  static Result<OutputFile> open(const std::string& path) {
    if (path == "-") return OutputFile(path, Fd());
    Fd file(::open((path + ".part").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!file) return errno_failure("write " + path, errno);
    return OutputFile(path, std::move(file));
  }

  bool write(std::string_view text) {
    written_ = written_ && write_all(file_ ? file_.get() : STDOUT_FILENO, text);
    if (!written_ && error_ == 0) error_ = errno;
    return written_;
  }

  // Prints the path, or the failure, and returns the exit code.
  int finish() {
    if (!file_) return written_ ? exit_done : complain_of_output();
    const std::string part = path_ + ".part";
    if (written_ && std::rename(part.c_str(), path_.c_str()) == 0) {
      return print(fmt::format("Wrote {}\n", printable(path_)));
    }
    const int error = written_ ? errno : error_;
    (void)::unlink(part.c_str());
    return complain(errno_failure("write " + path_, error));
  }

 private:
  OutputFile(std::string path, Fd file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  Fd file_;
  bool written_ = true;
  int error_ = 0;
};

// The file appears under its name when it is complete.
int export_study(ExperimentReader& reader, const ExperimentLocation& location,
                 const TuneFlags& flags) {
  const std::string path = flags.file.empty() ? location.name + ".db" : flags.file;
  if (path == "-") {
    return complain(failure(ErrorCode::invalid_argument,
                            "export --output -: a study is an SQLite file; name a file"));
  }
  const std::string part = path + ".part";
  (void)::unlink(part.c_str());
  const auto done = tune::export_optuna(reader, part);
  if (done && std::rename(part.c_str(), path.c_str()) == 0) {
    return print(fmt::format("Wrote {}\n", printable(path)));
  }
  const int error = errno;
  (void)::unlink(part.c_str());
  return complain(done ? errno_failure("write " + path, error) : done.error());
}

}  // namespace

int write_plots(const ExperimentLocation& location, const TuneFlags& flags) {
  auto reader = ExperimentReader::open(location);
  if (!reader) return complain(reader.error());
  const auto experiment = reader->experiment();
  if (!experiment) return complain(experiment.error());
  const bool runs = !tune::ExperimentLock::holder(location.lock_file()).empty();
  const std::string state =
      experiment->state == "running" && !runs ? "interrupted" : experiment->state;
  const auto model = tune::report_model_of(*reader, state);
  if (!model) return complain(model.error());
  auto file = OutputFile::open(flags.file.empty() ? location.name + ".html" : flags.file);
  if (!file) return complain(file.error());
  file->write(tune::report_page(*model));
  return file->finish();
}

int export_experiment(const ExperimentLocation& location, const TuneFlags& flags) {
  auto reader = ExperimentReader::open(location);
  if (!reader) return complain(reader.error());
  if (flags.format == "tensorboard") {
    const std::string directory = flags.file.empty() ? location.name + "-tensorboard" : flags.file;
    if (auto done = tune::export_tensorboard(*reader, directory); !done) {
      return complain(done.error());
    }
    return print(fmt::format("Wrote {}\n", printable(directory)));
  }
  if (flags.format == "optuna") return export_study(*reader, location, flags);
  auto file =
      OutputFile::open(flags.file.empty() ? location.name + "." + flags.format : flags.file);
  if (!file) return complain(file.error());
  const auto sink = [&](std::string_view text) { return file->write(text); };
  const auto done = flags.format == "csv" ? tune::export_csv(*reader, sink)
                                          : tune::export_json_lines(*reader, sink);
  if (!done) return complain(done.error());
  return file->finish();
}

int import_study(const ExperimentLocation& location, const CommandLine& line) {
  const auto imported =
      tune::import_optuna({.file = line.tune.file, .study = line.tune.study, .location = location});
  if (!imported) return complain(imported.error());
  if (!for_people(line)) {
    return print({{"apiVersion", "mobula/v1"},
                  {"kind", "ImportedExperiment"},
                  {"name", imported->name},
                  {"trials", imported->trials}},
                 line);
  }
  return print(fmt::format("Imported {} trials as experiment {}\n", imported->trials,
                           printable(imported->name)));
}

}  // namespace mobula::internal::cli
