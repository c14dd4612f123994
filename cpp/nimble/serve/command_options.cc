// The options that follow the arguments of a command.
#include <algorithm>
#include <charconv>

#include "nimble/serve/commands_impl.h"

namespace nimble {

bool parse_count(std::string_view text, uint64_t* out) {
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() &&
         !text.empty();
}

Status Command::read_options(const ServedTable& table, size_t at,
                             std::span<const char* const> accepted,
                             Options* out) const {
  const auto missing = [&](std::string_view what) {
    return Status::invalid_argument("arguments are missing after " +
                                    std::string(what));
  };
  // Only commands that read in key order can send blocks: their rows are
  // adjacent.
  const bool can_be_raw =
      std::find_if(accepted.begin(), accepted.end(), [](const char* name) {
        return std::string_view(name) == "PAGE";
      }) != accepted.end();
  uint32_t seen = 0;
  while (at < arguments_.size()) {
    const std::string_view option = arguments_[at++];
    const size_t left = arguments_.size() - at;
    uint64_t n = 0;
    const auto known =
        std::find_if(accepted.begin(), accepted.end(),
                     [&](const char* name) { return equals(option, name); });
    if (known == accepted.end()) {
      return Status::invalid_argument("unknown option '" +
                                      std::string(option.substr(0, 100)) +
                                      "' of " + scratch_->name);
    }
    const uint32_t bit = 1u << (known - accepted.begin());
    if ((seen & bit) != 0) {
      return Status::invalid_argument(std::string(*known) + " is given twice");
    }
    seen |= bit;
    if (equals(option, "COLS")) {
      if (left < 1 || !parse_count(arguments_[at], &n) || n > left - 1) {
        return missing("COLS");
      }
      ++at;
      out->has_columns = true;
      for (uint64_t i = 0; i < n; ++i) {
        NIMBLE_ASSIGN_OR_RETURN(const uint32_t column,
                                column_of(table, arguments_[at++]));
        if (std::find(out->columns.begin(), out->columns.end(), column) !=
            out->columns.end()) {
          return Status::invalid_argument("COLS: column '" +
                                          table.schema().children[column].name +
                                          "' is given twice");
        }
        out->columns.push_back(column);
      }
    } else if (equals(option, "KEYS")) {
      if (left < 1 || !parse_count(arguments_[at], &n) || n > left - 1) {
        return missing("KEYS");
      }
      ++at;
      NIMBLE_RETURN_IF_ERROR(check_keys(n));
      const Arguments keys = arguments_.subspan(at, n);
      out->keys.assign(keys.begin(), keys.end());
      at += n;
    } else if (equals(option, "FILTER")) {
      if (left < 1 || !parse_count(arguments_[at], &n) || n > left - 1) {
        return missing("FILTER");
      }
      ++at;
      out->filter = arguments_.subspan(at, n);
      at += n;
    } else if (equals(option, "AS")) {
      if (left < 1) return missing("AS");
      const std::string_view form = arguments_[at++];
      out->as_arrow = equals(form, "ARROW");
      out->as_raw = can_be_raw && equals(form, "RAW");
      if (!out->as_arrow && !out->as_raw && !equals(form, "RESP")) {
        return Status::invalid_argument(
            "AS " + std::string(form.substr(0, 20)) + ": " + scratch_->name +
            " supports AS RESP" +
            (can_be_raw ? ", AS ARROW and AS RAW" : " and AS ARROW"));
      }
    } else if (equals(option, "MISSING")) {
      if (left < 1) return missing("MISSING");
      const std::string_view how = arguments_[at++];
      out->skip_missing = equals(how, "SKIP");
      if (!out->skip_missing && !equals(how, "NULL")) {
        return Status::invalid_argument("MISSING: expected NULL or SKIP");
      }
    } else if (equals(option, "LIMIT")) {
      if (left < 1 || !parse_count(arguments_[at], &out->limit)) {
        return missing("LIMIT");
      }
      ++at;
    } else if (equals(option, "AFTER")) {
      if (left < 1) return missing("AFTER");
      out->after = arguments_[at++];
    } else if (equals(option, "PAGE")) {
      if (left < 1) return missing("PAGE");
      out->page = arguments_[at++];
    } else if (equals(option, "INCLUSIVE")) {
      if (left < 1) return missing("INCLUSIVE");
      out->inclusive = arguments_[at++];
      if (out->inclusive != "[)" && out->inclusive != "[]" &&
          out->inclusive != "()" && out->inclusive != "(]") {
        return Status::invalid_argument("INCLUSIVE: expected [), [], () or (]");
      }
    } else if (equals(option, "REVERSE")) {
      out->reverse = true;
    } else if (equals(option, "ALL")) {
      out->all = true;
    } else if (equals(option, "PROBE")) {
      if (left < 1 || arguments_[at].empty()) return missing("PROBE");
      out->probe = arguments_[at++];
    } else {  // STARTS
      out->starts_with = true;
    }
  }
  if (!out->has_columns) out->columns = table.all_columns();
  if (!out->as_arrow && (out->all || !out->probe.empty())) {
    return Status::invalid_argument("ALL and PROBE need AS ARROW");
  }
  if (out->all && !out->skip_missing) {
    return Status::invalid_argument("ALL needs MISSING SKIP");
  }
  return Status::ok();
}

ArrowRequest Command::arrow_request(const Options& options) const {
  return {options.columns, options.probe, false, options_.max_reply_bytes};
}

}  // namespace nimble
