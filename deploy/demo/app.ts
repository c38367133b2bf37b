export function total(cents: number[]): number {
  return cents.reduce((sum, price) => sum + price, 0);
}
