import Table from 'cli-table3'
import type { Terminal } from '../terminal/terminal.js'
import { columnsOf, cutColumns, oneLine } from '../terminal/text.js'

export interface Column<Row> {
  head: string
  cell(row: Row): string
  /** Set if the column may be shortened on a narrow terminal. */
  shrinks?: true
  /** Set if the column may be dropped on a narrow terminal, the last such column first. */
  optional?: true
  color?(row: Row): (text: string) => string
}

const COLUMN_GAP = 2
const MIN_COLUMN_WIDTH = 12

/**
 * Renders rows under headings without a frame, so that the table is as readable in a log as on a terminal. On a narrow terminal, optional columns are
 * dropped, which the last line says; if that is not enough, each row becomes a block of lines.
 */
export function renderTable<Row>(columns: Column<Row>[], rows: Row[], terminal: Pick<Terminal, 'colors' | 'columns'>): string {
  const left = columns.slice()
  const gone: string[] = []
  while (terminal.columns !== undefined && leastWidth(left, rows) > terminal.columns) {
    const at = left.findLastIndex(({ optional }) => optional)
    if (at < 0) return renderBlocks(columns, rows, terminal)
    gone.unshift(...left.splice(at, 1).map(({ head }) => head))
  }
  const text = renderColumns(left, rows, terminal)
  return gone.length === 0
    ? text
    : `${text}\n${terminal.colors.dim(`Columns not shown (narrow terminal): ${gone.join(', ')}; --json prints all.`)}`
}

function renderColumns<Row>(columns: Column<Row>[], rows: Row[], terminal: Pick<Terminal, 'colors' | 'columns'>): string {
  const cells = cellsOf(columns, rows)
  const widths = fit(columns, cells, terminal.columns)
  const table = new Table({
    head: columns.map((column) => terminal.colors.bold(column.head)),
    chars: FRAMELESS,
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': COLUMN_GAP },
  })
  for (const [number, row] of cells.entries()) {
    table.push(row.map((text, index) => paint(columns[index], rows[number])(cutColumns(text, widths[index] ?? 0))))
  }
  return table
    .toString()
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n')
}

/** Renders each row as lines of heading and value, without empty cells. */
function renderBlocks<Row>(columns: Column<Row>[], rows: Row[], { colors, columns: width }: Pick<Terminal, 'colors' | 'columns'>): string {
  const label = Math.max(...columns.map(({ head }) => head.length)) + COLUMN_GAP
  const room = width === undefined ? undefined : Math.max(MIN_COLUMN_WIDTH, width - label)
  const blocks = cellsOf(columns, rows).map((row, number) =>
    row
      .flatMap((text, index) => {
        const column = columns[index]
        if (column === undefined || text === '') return []
        return [
          `${colors.bold(column.head.padEnd(label))}${paint(column, rows[number])(column.shrinks && room ? cutColumns(text, room) : text)}`,
        ]
      })
      .join('\n'),
  )
  return blocks.join('\n\n')
}

function cellsOf<Row>(columns: Column<Row>[], rows: Row[]): string[][] {
  return rows.map((row) => columns.map((column) => oneLine(column.cell(row))))
}

/** Returns the minimum width of the table, with shrinking columns as narrow as possible. */
function leastWidth<Row>(columns: Column<Row>[], rows: Row[]): number {
  const widths = naturalWidths(columns, cellsOf(columns, rows))
  const least = widths.map((width, index) => (columns[index]?.shrinks ? Math.min(width, MIN_COLUMN_WIDTH) : width) + COLUMN_GAP)
  return least.reduce((sum, width) => sum + width, -COLUMN_GAP)
}

function naturalWidths<Row>(columns: Column<Row>[], cells: string[][]): number[] {
  return columns.map((column, index) => Math.max(column.head.length, ...cells.map((row) => columnsOf(row[index] ?? ''))))
}

function paint<Row>(column: Column<Row> | undefined, row: Row | undefined): (text: string) => string {
  return (row !== undefined && column?.color?.(row)) || ((text) => text)
}

/** Returns the column widths. Only shrinking columns are cut, and only on a terminal. */
function fit<Row>(columns: Column<Row>[], cells: string[][], width: number | undefined): number[] {
  const natural = naturalWidths(columns, cells)
  if (width === undefined) return natural
  let excess = natural.reduce((sum, w) => sum + w + COLUMN_GAP, -COLUMN_GAP) - width
  return natural.map((wanted, index) => {
    if (!columns[index]?.shrinks || excess <= 0) return wanted
    const kept = Math.max(MIN_COLUMN_WIDTH, wanted - excess)
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
