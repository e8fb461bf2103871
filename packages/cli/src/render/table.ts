import Table from 'cli-table3'
import type { Terminal } from '../terminal.js'
import { oneLine } from '../text.js'

export interface Column<Row> {
  head: string
  cell(row: Row): string
  /** The column that gives way when the terminal is narrow. */
  shrinks?: true
  color?(row: Row): (text: string) => string
}

const GAP = 2
const NARROWEST = 12

/** Rows under plain headings, no frame: as readable in a log as on a terminal. */
export function renderTable<Row>(columns: Column<Row>[], rows: Row[], terminal: Pick<Terminal, 'colors' | 'columns'>): string {
  const cells = rows.map((row) => columns.map((column) => oneLine(column.cell(row))))
  const widths = fit(columns, cells, terminal.columns)
  const table = new Table({
    head: columns.map((column) => terminal.colors.bold(column.head)),
    chars: FRAMELESS,
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': GAP },
  })
  for (const [number, row] of cells.entries()) {
    table.push(row.map((text, index) => paint(columns[index], rows[number])(oneLine(text, widths[index]))))
  }
  return table
    .toString()
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n')
}

function paint<Row>(column: Column<Row> | undefined, row: Row | undefined): (text: string) => string {
  return (row !== undefined && column?.color?.(row)) || ((text) => text)
}

/** Widths in characters; only shrinking columns are cut, and only on a terminal. */
function fit<Row>(columns: Column<Row>[], cells: string[][], width: number | undefined): number[] {
  const natural = columns.map((column, index) => Math.max(column.head.length, ...cells.map((row) => row[index]?.length ?? 0)))
  if (width === undefined) return natural
  let excess = natural.reduce((sum, w) => sum + w + GAP, 0) - width
  return natural.map((wanted, index) => {
    if (!columns[index]?.shrinks || excess <= 0) return wanted
    const kept = Math.max(NARROWEST, wanted - excess)
    excess -= wanted - kept
    return Math.min(wanted, kept)
  })
}

const FRAMELESS = {
  top: '',
  'top-mid': '',
  'top-left': '',
  'top-right': '',
  bottom: '',
  'bottom-mid': '',
  'bottom-left': '',
  'bottom-right': '',
  left: '',
  'left-mid': '',
  mid: '',
  'mid-mid': '',
  right: '',
  'right-mid': '',
  middle: '',
}
