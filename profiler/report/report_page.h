// The report as one self-contained HTML page: no scripts, nothing from the network, light and dark, and every
// chart's numbers as a table beneath it.
#pragma once

#include <string>

#include "profiler/report/report_data.h"

namespace hearth {

/// Pure text. Parts that data does not have are left out.
std::string report_page(const ReportData& data);

}  // namespace hearth
