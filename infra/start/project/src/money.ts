/** An amount in cents: floating point never touches money here. */
export type Cents = number & { readonly unit: 'cents' }

export function cents(amount: number): Cents {
  return Math.round(amount) as Cents
}

/** `1234` cents as `12.34 EUR`. */
export function formatMoney(amount: Cents, currency = 'EUR'): string {
  const sign = amount < 0 ? '-' : ''
  const whole = Math.trunc(Math.abs(amount) / 100)
  const rest = String(Math.abs(amount) % 100).padStart(2, '0')
  return `${sign}${whole}.${rest} ${currency}`
}
